#!/usr/bin/env python3
"""Measures rate and round trip of a link of an emulated cluster.

Usage: link_rate.py FROM TO ADDRESS [--mbit R] [--latency-us L]
FROM and TO are network namespaces, and ADDRESS is that of TO. Sends over one TCP connection in each
direction, one after the other, and bounces single bytes. Needs root. The exit code is 1 if a rate
is more than 10 % off R. Standard library only.
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import time

PORT = 5201
BOUNCES = 50
SECONDS = 1.5
SETTLE = 0.3  # seconds at the start of a transfer that are not counted
# Bytes of a full jumbo frame that the link counts, and TCP payload in it (with timestamps).
FRAME, PAYLOAD = 9014, 8948
TOLERANCE = 0.1


def receive_rate(connection):
    """Mbit/s of payload, until the sender closes its side."""
    first, counted, last = time.monotonic(), 0, None
    start = None
    while data := connection.recv(1 << 18):
        last = time.monotonic()
        if last - first < SETTLE:
            continue
        if start is None:
            start = last  # counting begins here; the bytes received so far do not count
        else:
            counted += len(data)
    if start is None or last == start:
        raise OSError(f"the transfer ended within {SETTLE} s")
    return 8e-6 * counted / (last - start)


def send(connection):
    block = bytes(1 << 16)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        connection.sendall(block)
    connection.shutdown(socket.SHUT_WR)


def serve(address):
    """Answers one client: bounces, receives, then sends."""
    with socket.create_server((address, PORT)) as server:
        print("ready", flush=True)
        server.settimeout(20)
        with server.accept()[0] as connection:
            connection.settimeout(20)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(BOUNCES):
                connection.sendall(connection.recv(1))
            rate = receive_rate(connection)
        with server.accept()[0] as connection:
            connection.settimeout(20)
            connection.sendall(json.dumps(rate).encode() + b"\n")
            send(connection)


def measure(address):
    """Prints {"there": Mbit/s of payload, "back": Mbit/s, "round_trip_us": median}."""
    bounces = []
    with socket.create_connection((address, PORT), timeout=20) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(BOUNCES):
            begin = time.monotonic()
            connection.sendall(b"x")
            connection.recv(1)
            bounces.append(1e6 * (time.monotonic() - begin))
        send(connection)
        connection.recv(1)  # waits until the server has everything and closes
    with socket.create_connection((address, PORT), timeout=20) as connection:
        line = b""
        while not line.endswith(b"\n"):
            line += connection.recv(1)
        back = receive_rate(connection)
    print(json.dumps({"there": json.loads(line), "back": back,
                      "round_trip_us": statistics.median(bounces)}))


def in_namespace(name, *arguments):
    return ["ip", "netns", "exec", name, sys.executable, __file__, *arguments]


def main():
    if len(sys.argv) == 3 and sys.argv[1] in ("--serve", "--measure"):
        {"--serve": serve, "--measure": measure}[sys.argv[1]](sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sender", metavar="FROM")
    parser.add_argument("receiver", metavar="TO")
    parser.add_argument("address", metavar="ADDRESS")
    parser.add_argument("--mbit", type=float)
    parser.add_argument("--latency-us", type=float, default=0)
    options = parser.parse_args()
    with subprocess.Popen(in_namespace(options.receiver, "--serve", options.address),
                          stdout=subprocess.PIPE, text=True) as server:
        try:
            if server.stdout.readline() != "ready\n":
                sys.exit(f"link_rate.py: no server came up on {options.receiver}")
            done = subprocess.run(in_namespace(options.sender, "--measure", options.address),
                                  stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        except subprocess.SubprocessError as error:
            sys.exit(f"link_rate.py: {error}")
        finally:
            server.kill()
    found = json.loads(done.stdout)
    wrong = False
    for way, key in ((f"{options.sender} to {options.receiver}", "there"),
                     (f"{options.receiver} to {options.sender}", "back")):
        rate = found[key] * FRAME / PAYLOAD
        asked = "no limit" if options.mbit is None else f"{options.mbit:g} Mbit/s"
        print(f"{way}: {rate:.1f} Mbit/s on the link ({found[key]:.1f} of payload), asked: {asked}")
        wrong |= options.mbit is not None and abs(rate / options.mbit - 1) > TOLERANCE
    print(f"round trip of one byte: {found['round_trip_us']:.0f} us, asked: "
          f"{2 * options.latency_us:.0f} us and what the machine takes")
    if wrong:
        sys.exit(f"link_rate.py: a rate is more than {TOLERANCE:.0%} off")


if __name__ == "__main__":
    main()
