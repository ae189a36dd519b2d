# shellcheck shell=bash
# A working interpreter of a version: the one on PATH, or the newest of pyenv.
interpreter() {
    local found
    for found in "$(command -v "python$1" || true)" \
        $(ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"${1%t}".*/bin/"python$1" 2>/dev/null | sort -rV); do
        if [ -n "$found" ] && "$found" -c '' 2>/dev/null; then
            echo "$found"
            return
        fi
    done
    return 1
}
