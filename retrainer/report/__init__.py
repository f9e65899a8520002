"""The report: one self-contained HTML file of a night or a replay."""
