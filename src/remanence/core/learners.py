"""Names of the learners that deep agents may have; `agents/learners.py` chooses between them."""

AUTO, XLA, NATIVE = "auto", "xla", "native"
LEARNERS = (AUTO, XLA, NATIVE)
