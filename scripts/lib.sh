# Shared by the scripts: finds a Python, makes a virtual environment that fits pyproject.toml.

# The first Python on PATH that tithe supports.
find_python() {
    local name
    for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.10 python3.14 python; do
        if command -v "$name" >/dev/null 2>&1 &&
            "$name" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1; then
            command -v "$name"
            return
        fi
    done
    echo "Python 3.10 to 3.14 with the venv module is needed (on Debian: apt install python3-venv); set PYTHON to one" >&2
    return 2
}

# make_environment FOLDER REQUIREMENT...: a virtual environment with these installed; made anew when
# pyproject.toml, the requirements or the Python changed, and only marked as ready when it is whole.
make_environment() {
    local folder=$1 python stamp
    shift
    python=$(find_python)
    stamp=$({ cat pyproject.toml; echo "$*"; "$python" -V; pwd; } | cksum)
    if [ "$(cat "$folder/.stamp" 2>/dev/null)" != "$stamp" ]; then
        rm -rf "$folder"
        "$python" -m venv "$folder"
        "$folder/bin/python" -m pip install --quiet --quiet --disable-pip-version-check "$@"
        echo "$stamp" >"$folder/.stamp"
    fi
}
