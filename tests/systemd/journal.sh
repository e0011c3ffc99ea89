# A journald of its own in a mount namespace: `unshare --mount` runs this. $1: a folder for results; $2: Python.
set -eu
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal /run/systemd/journald.conf.d /run/log/journal
printf '[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\n' > /run/systemd/journald.conf.d/test.conf
if [ ! -s /etc/machine-id ]; then
  printf '%032x\n' 7 > /run/machine-id
  touch /etc/machine-id
  mount --bind /run/machine-id /etc/machine-id
fi
/lib/systemd/systemd-journald &
journald=$!
i=0
while [ ! -S /run/systemd/journal/stdout ] && [ "$i" -lt 600 ]; do sleep 0.05; i=$((i + 1)); done
systemd-cat -t child "$2" -m tests.systemd.journal_child "$1" || true
journalctl --sync
for match in XID=79 XID=13 COMMAND=R11 FINDING=F31 SYSLOG_IDENTIFIER=trimtab-daemon; do
  journalctl --directory=/run/log/journal --output=json "$match" > "$1/$match.json"
done
kill "$journald"
wait "$journald" || true
