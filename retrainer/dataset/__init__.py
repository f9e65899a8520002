"""From attempts to what is trained on; docs/model.md lists the forms of a row on the way."""
