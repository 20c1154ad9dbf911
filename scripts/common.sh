# Shared by scripts/test and scripts/quickstart (sourced, POSIX sh): what they need from the system, and how it gets there.

say() {
    printf '%s\n' "$*" >&2
}

die() {
    say "$0: $*"
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# The Debian package that has a compiler command.
compiler_package() {
    case "$(basename "$1")" in
        clang*) echo "$(basename "$1")" ;;
        gcc-*) echo "$(basename "$1")" ;;
        *) echo gcc ;;
    esac
}

# missing CHECK PACKAGE: adds PACKAGE to $packages unless the check holds. A check is a command's name, pc:NAME for a pkg-config file, or py:NAME for a Python module.
missing() {
    case "$1" in
        py:*) have python3 && python3 -c "import ${1#py:}" 2>/dev/null && return 0 ;;
        pc:*) have pkg-config && pkg-config --exists "${1#pc:}" && return 0 ;;
        *) have "$1" && return 0 ;;
    esac
    case " $packages " in
        *" $2 "*) ;;
        *) packages="$packages $2" ;;
    esac
}

# apt-get install, as root or by sudo. 1: not possible here.
apt_install() {
    have apt-get || return 1
    run=
    if [ "$(id -u)" -ne 0 ]; then
        have sudo || return 1
        if ! sudo -n true 2>/dev/null; then
            [ -t 0 ] || return 1
        fi
        run=sudo
    fi
    say "installing: $*"
    $run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2 && return 0
    $run apt-get update -qq >&2 || return 1 # the lists may be old or absent
    $run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

# Installs $packages; when that is not possible says what is to be installed, and ends.
install_missing() {
    packages=$(echo $packages)
    [ -z "$packages" ] && return 0
    # shellcheck disable=SC2086
    apt_install $packages && return 0
    say "These packages are missing and cannot be installed from here. On Debian or Ubuntu, run:"
    say "    sudo apt-get install $packages"
    exit 1
}

# Libraries without which things work, only less well: tried, never required.
install_optional() {
    packages=$(echo $packages)
    [ -z "$packages" ] && return 0
    # shellcheck disable=SC2086
    apt_install $packages || say "going on without: $packages"
}

# What every build needs.
need_build_tools() {
    missing "${CC:-cc}" "$(compiler_package "${CC:-gcc}")"
    printf '#include <stdio.h>\nint main(void){return 0;}\n' >"${TMPDIR:-/tmp}/infer-probe-$$.c"
    if have "${CC:-cc}" && ! "${CC:-cc}" -fsyntax-only "${TMPDIR:-/tmp}/infer-probe-$$.c" 2>/dev/null; then
        packages="$packages libc6-dev"
    fi
    have "${CC:-cc}" || packages="$packages libc6-dev"
    rm -f "${TMPDIR:-/tmp}/infer-probe-$$.c"
    missing meson meson
    missing ninja ninja-build
    missing pkg-config pkg-config
    missing python3 python3
}

# configure DIR ARG...: meson setup, once for each set of arguments.
configure() {
    dir=$1
    shift
    stamp="$dir/.infer-configured"
    if [ -f "$dir/build.ninja" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$*" ]; then
        return 0
    fi
    rm -rf "$dir"
    if ! meson setup "$dir" "$@" >"$dir.log" 2>&1; then
        cat "$dir.log" >&2
        rm -f "$dir.log"
        die "meson setup failed"
    fi
    rm -f "$dir.log"
    printf '%s\n' "$*" >"$stamp"
}

# CC, CFLAGS and their like are those of the native compiler.
with_cross_environment() {
    (
        unset CC CXX CFLAGS CXXFLAGS LDFLAGS
        "$@"
    )
}

# as_root COMMAND...: false when that is not possible without asking.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        have sudo && sudo -n "$@"
    fi
}

# What scripts/test --cross aarch64 needs: compiler, emulator, and cmocka of that architecture beside the native one.
install_aarch64() {
    packages=
    missing pc:libxxhash libxxhash-dev # a header for every processor: the build machine's will do
    missing aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    missing qemu-aarch64 qemu-user
    cmocka=/usr/lib/aarch64-linux-gnu/pkgconfig/cmocka.pc
    if [ ! -f $cmocka ]; then
        have dpkg || return 1
        if ! dpkg --print-foreign-architectures | grep -qx arm64; then
            as_root dpkg --add-architecture arm64 || return 1
            if ! as_root apt-get update -qq >&2; then # these mirrors do not have it
                as_root dpkg --remove-architecture arm64
                return 1
            fi
        fi
        packages="$packages libcmocka-dev:arm64"
    fi
    install_optional
    have aarch64-linux-gnu-gcc && have qemu-aarch64 && [ -f $cmocka ]
}

install_mingw() {
    packages=
    missing pc:libxxhash libxxhash-dev
    missing x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64
    install_optional
    have x86_64-w64-mingw32-gcc
}
