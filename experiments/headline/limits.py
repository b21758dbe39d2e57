"""Computes the bounds that a link rate sets, from --summary files. Standard library only.

A cluster has one link a host, whose rate counts Ethernet frames in each direction.
"""

# Bytes of a full jumbo frame that the link counts, and TCP payload in it (with timestamps).
FRAME_BYTES, PAYLOAD_BYTES = 9014, 8948


def epoch_seconds(summary):
    """Seconds from one epoch's end to the next, since bytes also travel between epochs, when the
    command's own timer does not run."""
    wall = summary.get("wall_seconds")
    return summary["epoch_seconds"]["median"] if wall is None else wall


def exposed(summary):
    """Seconds of an epoch in which the mean rank waits for node rows or weight gradients."""
    return summary["seconds"]["exposed_comm"] + summary["seconds"]["allreduce"]


def computing(summary):
    """Seconds of an epoch in which the slowest rank does not wait."""
    return summary["epoch_seconds"]["median"] - exposed(summary)


def busiest_link_bytes(summary):
    """Bytes in an epoch of the host that sends or receives most, with one rank a host. Weight
    gradients are spread evenly over ranks."""
    ranks = summary["ranks"]
    sent, received = [0.0] * ranks, [0.0] * ranks
    for link in summary["halo_traffic"]:
        sent[link["from"]] += link["bytes"] / summary["epochs"]
        received[link["to"]] += link["bytes"] / summary["epochs"]
    return max(sent + received) + summary["bytes_per_epoch"]["allreduce"] / ranks


def transfer_seconds(summary, mbit, framed=True):
    """Least time in which the busiest link carries an epoch's bytes, with headers if `framed`."""
    overhead = FRAME_BYTES / PAYLOAD_BYTES if framed else 1.0
    return 8e-6 * busiest_link_bytes(summary) * overhead / mbit


def first_rate(summary, compute, ratio, framed=True):
    """Mbit/s at which the transfer of an epoch's bytes takes `ratio` times `compute` seconds."""
    return transfer_seconds(summary, 1.0, framed) / (ratio * compute)


def next_rate(mbit, epoch, compute, ratio):
    """Mbit/s at which waiting takes `ratio` times `compute` seconds, for an epoch of `epoch`
    seconds over links of `mbit`. Waiting is inversely proportional to the rate."""
    return mbit * (epoch - compute) / (ratio * compute)


def least_seconds(summary, free, mbit, framed=True):
    """Seconds of an epoch that hides as much as possible: the computing of the same setting, measured
    over links without limit, or the busiest link's bytes, whichever takes longer."""
    return max(computing(free), transfer_seconds(summary, mbit, framed))
