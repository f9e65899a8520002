"""The alternatives, side by side: every family of models on the same rows and the same held-out attempts."""
