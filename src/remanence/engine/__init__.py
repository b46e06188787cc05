"""The interaction loop, for one lane and for many, and what it measures."""
