# Sourced by the scripts of this folder. Changes to the root of the repository and reports errors.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

set -E
trap 'echo "$0: stopped at line $LINENO: exit code $?" >&2' ERR

say() { printf '\n== %s\n' "$*"; }

# For a script without arguments: `--help` prints its first comment, and anything else is refused.
take_no_arguments() {
  case ${1-} in
    '') ;;
    -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "scripts/${0##*/}"; exit 0 ;;
    *) echo "${0##*/}: there are no arguments but --help; \"$1\" was given" >&2; exit 2 ;;
  esac
}

# Prints the first Python with NumPy; a python3 from elsewhere may lack Debian's python3-numpy.
find_python() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import numpy' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  echo "no Python on this machine can import numpy: install python3-numpy" >&2
  return 1
}
