"""On-call: who is told what, in which order, by whom, and what they answer."""
