"""How tests of processes tell what is noticed from what is waited out."""

# Seconds. What ends a process does so before half of what it would wait for who is silent.
PATIENCE = 60


def silences(**shorter):
    """Flags of a run that takes nobody for silent, but in the phases that are named."""
    limits = {"loading": PATIENCE, "training": PATIENCE, "saving": PATIENCE, **shorter}
    return [word for phase, seconds in limits.items()
            for word in (f"--silence-{phase}", str(seconds))]
