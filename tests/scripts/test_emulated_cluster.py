#!/usr/bin/env python3
"""Tests of experiments/emulated_cluster.sh. Those that build a cluster are skipped without root,
network namespaces or Open MPI."""

import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import ROOT, FolderTest, read, run, wait_until

sys.path.append(os.path.join(ROOT, "experiments", "faults"))
from processes import state_of

SCRIPT = os.path.join(ROOT, "experiments", "emulated_cluster.sh")
NAME = f"hgtest{os.getpid()}"  # No other run of these tests has it.


def why_not():
    """Why no cluster can be built here, or None."""
    if os.geteuid() != 0:
        return "needs root"
    for tool in ("ip", "tc", "unshare"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    done = run("unshare", "--net", "sh", "-c",
               "ip link add name br9 type bridge && ip link add name v8 type veth peer name v9 && "
               "tc qdisc add dev v8 root tbf rate 1mbit burst 6000 latency 1ms")
    if done.returncode != 0:
        return f"no namespaces, bridges or token buckets here: {done.stderr.strip()}"
    return None


LACKS = why_not()
LACKS_MPI = LACKS or (None if shutil.which("mpirun") else "mpirun is not installed")


def cluster(*arguments, **options):
    return run("bash", SCRIPT, *arguments, timeout=60, **options)


def left_behind(name=NAME):
    """The namespaces, links and state folder that a cluster of this name has left."""
    namespaces, links = run("ip", "netns", "list"), run("ip", "link")
    namespaces.check_returncode()
    links.check_returncode()
    state = os.path.join("/run/heliograph-cluster", name)
    return (re.findall(rf"^{name}-\S+", namespaces.stdout, re.MULTILINE)
            + re.findall(r"\bport\d+", links.stdout) + [state] * os.path.exists(state))


class Arguments(FolderTest):
    def test_wrong_ones_are_refused(self):
        for words, names in ((["--", "true"], "--hosts"),
                             (["--hosts", "1", "--", "true"], "--hosts 1"),
                             (["--hosts", "2x", "--", "true"], "--hosts 2x"),
                             (["--hosts", "2", "--mbit", "0", "--", "true"], "--mbit 0"),
                             (["--hosts", "2", "--mbit", "1;id", "--", "true"], "--mbit 1;id"),
                             (["--hosts", "2", "--name", "A-b", "--", "true"], "--name A-b"),
                             (["--hosts", "2", "--cut-host", "3", "--cut-after", "1", "--", "true"],
                              "--cut-host 3"),
                             (["--hosts", "2", "--cut-host", "1", "--", "true"], "--cut-after"),
                             (["--hosts", "2", "--speed", "1"], "--speed"),
                             (["--hosts"], "--hosts needs a value"),
                             (["--hosts", "2"], "COMMAND"),
                             (["--hosts", "2", "--check", "--", "true"], "--check")):
            done = cluster(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(names, done.stderr)

    def test_help_names_every_option(self):
        done = cluster("--help")
        self.assertEqual(done.returncode, 0)
        parsed = set(re.findall(r"^ +(--[a-z-]+)\)", read(SCRIPT), re.MULTILINE))
        self.assertGreater(len(parsed), 5)
        for option in parsed - {"--"}:
            self.assertIn(option, done.stdout)

    def test_without_root_it_says_so(self):
        self.write("id", "#!/bin/sh\necho 1000\n", 0o755)
        done = cluster("--hosts", "2", "--", "true",
                       env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("needs root", done.stderr)


@unittest.skipIf(LACKS, LACKS)
class Network(unittest.TestCase):
    def tearDown(self):
        cluster("--clean")
        self.assertEqual(left_behind(), [])

    def test_the_rate_is_held(self):
        done = cluster("--name", NAME, "--hosts", "2", "--mbit", "20", "--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rates = [float(r) for r in re.findall(r"([\d.]+) Mbit/s on the link", done.stdout)]
        self.assertEqual(len(rates), 2, done.stdout)
        for rate in rates:
            self.assertAlmostEqual(rate, 20, delta=2)
        self.assertEqual(left_behind(), [])

    def test_a_taken_name_is_refused_and_stays(self):
        space = f"{NAME}-h1"
        subprocess.run(["ip", "netns", "add", space], check=True)
        try:
            done = cluster("--name", NAME, "--hosts", "2", "--check")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"--name {NAME}", done.stderr)
            self.assertEqual(left_behind(), [space])
        finally:
            subprocess.run(["ip", "netns", "delete", space], check=True)

    def test_latency_is_kept_or_refused_by_name(self):
        done = cluster("--name", NAME, "--hosts", "2", "--latency-us", "20000", "--check")
        if done.returncode == 0:
            trip = float(re.search(r"round trip of one byte: (\d+) us", done.stdout)[1])
            self.assertGreater(trip, 40000)
            self.assertLess(trip, 80000)  # Less than both ways twice.
        else:
            self.assertIn("--latency-us 20000: this kernel has no netem", done.stderr)
        self.assertEqual(left_behind(), [])


@unittest.skipIf(LACKS_MPI, LACKS_MPI)
class Running(FolderTest):
    def tearDown(self):
        cluster("--clean")
        self.assertEqual(left_behind(), [])

    def start(self, *arguments):
        """A cluster whose ranks write down their process ids and then sleep."""
        body = f"echo $$ >{self.folder}/$OMPI_COMM_WORLD_RANK; exec sleep 1000"
        process = subprocess.Popen(["bash", SCRIPT, "--name", NAME, "--hosts", "2", *arguments,
                                    "--", "sh", "-c", body],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        wait_until(lambda: all(map(os.path.exists, map(self.path, "01"))), "both ranks run")
        return process

    def ranks_alive(self):
        alive = []
        for rank in "01":
            state = state_of(int(self.read(rank)))
            if state and state[0] != "Z":  # Dead, and its parent has not looked yet.
                alive.append(rank)
        return alive

    def test_ranks_run_on_hosts_of_their_own(self):
        done = cluster("--name", NAME, "--hosts", "3", "--ranks-per-host", "2", "--", "sh", "-c",
                       'echo "$OMPI_COMM_WORLD_RANK $(hostname) $WORD $(cat /sys/class/net/eth0/'
                       'address)"', env={**os.environ, "WORD": "two words"})
        self.assertEqual(done.returncode, 0, done.stderr)
        ranks = dict(line.split(" ", 1) for line in done.stdout.splitlines())
        self.assertEqual(sorted(ranks), list("012345"))
        for rank, rest in ranks.items():
            self.assertTrue(rest.startswith(f"{NAME}-h{int(rank) // 2 + 1} two words "), rest)
        self.assertEqual(len({rest.split()[-1] for rest in ranks.values()}), 3)
        self.assertEqual(left_behind(), [])

    def test_the_exit_code_is_the_commands(self):
        done = cluster("--name", NAME, "--hosts", "2", "--", "sh", "-c", "exit 5")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertEqual(left_behind(), [])

    def test_a_signal_ends_all(self):
        process = self.start()
        process.send_signal(signal.SIGTERM)
        self.assertNotEqual(process.wait(30), 0)
        self.assertEqual((left_behind(), self.ranks_alive()), ([], []))

    def test_what_a_killed_script_leaves_is_cleaned(self):
        process = self.start()
        process.kill()
        process.wait(30)
        self.assertIn(f"{NAME}-switch", left_behind())
        done = cluster("--clean")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(NAME, done.stdout)
        self.assertEqual((left_behind(), self.ranks_alive()), ([], []))

    def test_a_live_cluster_is_not_cleaned_and_others_get_names(self):
        process = self.start()
        self.assertNotIn(NAME, cluster("--clean").stdout)
        self.assertEqual(len(self.ranks_alive()), 2)
        done = cluster("--hosts", "2", "--", "hostname")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([re.sub(r"^hg\d+-", "", name) for name in sorted(done.stdout.split())],
                         ["h1", "h2"])
        self.assertEqual(len(self.ranks_alive()), 2)
        process.terminate()
        process.wait(30)

    def test_a_limit_ends_the_command(self):
        done = cluster("--name", NAME, "--hosts", "2", "--limit", "2", "--", "sleep", "1000")
        self.assertEqual(done.returncode, 124, done.stderr)
        self.assertEqual(left_behind(), [])

    def test_a_cut_link_falls_silent(self):
        # Rank 1 sends bytes to rank 0, which prints when it has received nothing for 2 s.
        program = f"""
import os, socket, time
if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
    connection = socket.create_server(("", 5201)).accept()[0]
    connection.settimeout(2)
    try:
        while connection.recv(1): pass
        print("closed", flush=True)
    except TimeoutError:
        print("silent", flush=True)
else:
    while True:
        try:
            connection = socket.create_connection(("{NAME}-h1", 5201), timeout=1)
            break
        except OSError:
            time.sleep(0.1)
    for _ in range(1000):
        connection.sendall(b"x")
        time.sleep(0.1)
"""
        done = cluster("--name", NAME, "--hosts", "2", "--cut-host", "2", "--cut-after", "4",
                       "--limit", "12", "--", "python3", "-c", program)
        self.assertEqual(done.stdout.split(), ["silent"], done.stderr)
        self.assertRegex(done.stderr, rf"cut {NAME}-h2 at \d+\.\d+")
        self.assertEqual(left_behind(), [])


if __name__ == "__main__":
    unittest.main()
