"""Stage 6, issue: carry a command out, one step a beat, or undo it."""
