#!/bin/sh
# Send one event to Leap with a stock command-line client, as any language could with its own.
#
#   examples/send.sh TOPIC KEY FILE.json
#   examples/send.sh job-submitted b2d9e4c0-17 schemas/examples/job-submitted/v1/full.json
#
# The client is kcat where it is installed, else Kafka's own kafka-console-producer.sh. The key is the
# attempt_id, for job-completed the job's name without what differs between its runs; it only spreads and
# orders, so a launcher may choose another.
set -eu
topic=${LEAP_TOPIC_PREFIX:-}$1 key=$2 file=$3
servers=${LEAP_KAFKA_BOOTSTRAP_SERVERS:-127.0.0.1:9092}

# One message a line: key, tab, value. JSON has no line breaks inside its strings.
message() {
  printf '%s\t' "$key"
  tr -d '\r\n' <"$file"
  echo
}

if command -v kcat >/dev/null; then
  message | kcat -P -b "$servers" -t "$topic" -K '\t' -X enable.idempotence=true
else
  message | kafka-console-producer.sh --bootstrap-server "$servers" --topic "$topic" --property parse.key=true
fi
