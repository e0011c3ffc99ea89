#!/bin/sh
# Installs trimtab @VERSION@ from this folder, without a network.
#
#   sh install.sh                      into ./trimtab, to try it: no root needed
#   sh install.sh --into FOLDER        somewhere else
#   sudo sh install.sh --service agent     as a service on a node    (/usr/lib/trimtab-agent)
#   sudo sh install.sh --service daemon    as the cluster's daemon   (/usr/lib/trimtab-daemon)
#   ... --python /usr/bin/python3.12   with that Python; else the newest that fits: @PYTHONS@
#
# Run again with a newer bundle it upgrades what is there: settings and data stay.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
into= service= python=

fail() {
  echo "install.sh: $1" >&2
  [ $# -lt 2 ] || echo "  fix: $2" >&2
  exit 1
}

while [ $# -gt 0 ]; do
  case "$1" in
  --into | --service | --python)
    [ $# -ge 2 ] || fail "$1 needs a value" "sh install.sh --help"
    case "$1" in --into) into=$2 ;; --service) service=$2 ;; --python) python=$2 ;; esac
    shift 2
    ;;
  -h | --help)
    sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p;}' "$0"
    exit 0
    ;;
  *) fail "$1 is not known" "sh install.sh --help" ;;
  esac
done

# --- whether it can be

[ "$(uname -m)" = @MACHINE@ ] || fail "this bundle is for @MACHINE@, this machine is $(uname -m)" "take the bundle for $(uname -m)"
case "$service" in
'') ;;
agent | daemon)
  [ "$(id -u)" = 0 ] || fail "a service is installed by root" "sudo sh install.sh --service $service"
  command -v systemctl >/dev/null || fail "there is no systemd here" "leave --service away and run trimtab yourself"
  [ ! -e "/var/lib/dpkg/info/trimtab-$service.list" ] || fail "trimtab-$service is installed as a Debian package" "upgrade that: dpkg -i trimtab-${service}_*.deb"
  into=${into:-/usr/lib/trimtab-$service}
  [ "$into" = "/usr/lib/trimtab-$service" ] || fail "the units run /usr/lib/trimtab-$service, not $into" "leave --into away"
  ;;
*) fail "--service $service: it is agent or daemon" ;;
esac
into=${into:-$PWD/trimtab}

glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed 's/.* 2\.\([0-9]*\).*/\1/') || glibc=
[ -n "$glibc" ] || fail "this system has no glibc (musl?), which the wheels need" "use a system with glibc 2.34 or newer"
[ "$glibc" -ge 34 ] || fail "glibc is 2.$glibc; the wheels need 2.34 or newer (RHEL 9, Debian 12, Ubuntu 22.04)" "use a newer system, or the image"

fits() {
  "$1" -I -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] not in "@PYTHONS@".split())' 2>/dev/null
}
if [ -n "$python" ]; then
  command -v "$python" >/dev/null || fail "there is no $python here" "name another: --python /usr/bin/python3.12"
  fits "$python" || fail "$python is $("$python" --version 2>&1); this bundle has wheels for Python @PYTHONS@" "name another: --python /usr/bin/python3.12"
else
  for version in @PYTHONS@; do
    if fits "python$version"; then python=python$version; fi
  done
  if [ -z "$python" ] && fits python3; then python=python3; fi
  [ -n "$python" ] || fail "no Python of @PYTHONS@ is on the PATH" "RHEL: dnf install python3.12; Debian, Ubuntu: apt-get install python3; or --python FILE"
fi

(cd "$here" && sha256sum --quiet --check SHA256SUMS) || fail "the bundle is damaged: the sums above do not match" "copy it anew"

# --- install

echo "trimtab @VERSION@ into $into, with $("$python" --version)"
if [ -x "$into/bin/python" ] && ! fits "$into/bin/python"; then
  fail "$into is an environment of another Python" "move it away: mv $into $into.old"
fi
# pip comes with the bundle: neither python3-venv nor a pip of the system's is needed.
"$python" -I -m venv --without-pip "$into" || fail "$python cannot make an environment" "Debian, Ubuntu: apt-get install python3-venv; or another --python"
pip=$(echo "$here"/wheels/pip-*.whl)
what=trimtab==@VERSION@
[ "$service" = agent ] || what="trimtab[daemon]==@VERSION@"
env -u PIP_FIND_LINKS -u PIP_INDEX_URL -u PIP_EXTRA_INDEX_URL -u PIP_REQUIRE_VIRTUALENV PIP_CONFIG_FILE=/dev/null \
  "$into/bin/python" "$pip/pip" install --quiet --disable-pip-version-check --no-index --find-links "$here/wheels" \
  --upgrade --no-warn-script-location "$what" || fail "pip could not install it: see above"
"$into/bin/trimtab" --version >/dev/null || fail "trimtab does not start: see above"

if [ -z "$service" ]; then
  echo "To try it: $into/bin/trimtab demo"
  exit 0
fi

# --- as a service

units=/etc/systemd/system
mine="trimtab-agent*"
[ "$service" = agent ] || mine="trimtab-[!a]*"
for unit in "$here"/systemd/$mine; do
  install -m 0644 "$unit" "$units/"
done
mkdir -p /etc/sysusers.d /etc/tmpfiles.d
install -m 0644 "$here/systemd/trimtab.sysusers" /etc/sysusers.d/trimtab.conf
install -m 0644 "$here/systemd/trimtab.tmpfiles" /etc/tmpfiles.d/trimtab.conf
systemd-sysusers /etc/sysusers.d/trimtab.conf
systemd-tmpfiles --create /etc/tmpfiles.d/trimtab.conf || true
mkdir -p /etc/trimtab
[ -e "/etc/trimtab/$service.toml" ] || install -m 0644 "$here/systemd/$service.toml" "/etc/trimtab/$service.toml"
[ -e /usr/local/bin/trimtab ] || ln -s "$into/bin/trimtab" /usr/local/bin/trimtab
# SELinux: what was copied gets the labels of its place.
if command -v restorecon >/dev/null; then restorecon -R "$into" "$units" /etc/trimtab || true; fi
if [ ! -d /run/systemd/system ]; then
  echo "systemd does not run here; at the next boot: systemctl enable --now trimtab-$service"
  exit 0
fi
systemctl daemon-reload
if systemctl is-active --quiet "trimtab-$service.service"; then
  systemctl restart "trimtab-$service.service" || fail "trimtab-$service does not start" "journalctl -u trimtab-$service -n 20"
  echo "trimtab-$service is upgraded and runs."
else
  echo "Settings: /etc/trimtab/$service.toml. To start it: systemctl enable --now trimtab-$service"
fi
