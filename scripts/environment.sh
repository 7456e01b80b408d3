# Sourced by the scripts beside it: keeps .venv holding this checkout and what they run.
#
#   prepare [GROUP]    GROUP is one of the dependency groups of pyproject.toml
#
# Nothing is installed twice: .venv is made anew only where pyproject.toml, this file,
# the folder or the Python has changed. PYTHON names another interpreter.

cd "$(dirname "$0")/.."
# Another environment's settings would send Python and pip there.
unset VIRTUAL_ENV PYTHONHOME PYTHONPATH
PATH="$PWD/.venv/bin:$PATH"
export PATH PIP_DISABLE_PIP_VERSION_CHECK=1

prepare() {
    interpreter=$(find_interpreter)
    state="$("$interpreter" -VV) $PWD $(cat pyproject.toml scripts/environment.sh | cksum)"
    if [ "$(cat .venv/state 2>/dev/null)" != "$state" ]; then
        echo "Making .venv with $("$interpreter" -V) ..." >&2
        "$interpreter" -m venv --clear .venv
        install --upgrade "pip>=25.1" # the first that reads dependency groups
        install --editable ".[all]"
        printf '%s\n' "$state" >.venv/state
    fi
    if [ $# -gt 0 ] && [ ! -e ".venv/has-$1" ]; then
        echo "Installing what scripts/${0##*/} needs ..." >&2
        install --group "$1"
        : >".venv/has-$1"
    fi
}

install() {
    # Twice quiet: errors are shown, the machine's own pip settings aren't discussed.
    .venv/bin/python -m pip install --quiet --quiet "$@"
}

# .venv/bin leads the PATH, and what it holds can't be asked to make it anew.
find_interpreter() {
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        found=$(PATH="${PATH#*:}" command -v "$name") || continue
        "$found" -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null || continue
        if ! "$found" -c "import ensurepip, venv" 2>/dev/null; then
            echo "$found can't make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2
            return 1
        fi
        printf '%s\n' "$found"
        return
    done
    echo "Rowlock needs Python 3.11 or newer, and ${PYTHON:-python3} isn't one; name yours with PYTHON=..." >&2
    return 1
}
