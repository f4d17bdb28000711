# A server of its own with 100,000 keys of 300 bytes: 600,000 times set, 400,000 times got.
exec 2>/dev/null
redis-server --port 0 --unixsocket redis.sock --save "" --appendonly no --daemonize no >/dev/null &
server=$!
for _ in $(seq 50); do
    redis-cli -s redis.sock ping >/dev/null && break
    sleep 0.1
done
load() { redis-benchmark -s redis.sock -q -r 100000 -c 4 -P 16 "$@" >/dev/null; }
load -n 400000 -d 300 SET key:__rand_int__ __data__
load -n 200000 -d 300 -t set
load -n 400000 -t get
redis-cli -s redis.sock shutdown nosave
wait $server
