"""The digest: counted from what was kept, and put into words and pictures."""
