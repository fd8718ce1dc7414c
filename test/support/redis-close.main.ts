// Opens a connection to the URL given, uses it, closes it, and returns: what `close` leaves open keeps the process alive.
import { openConnections, untilWorks } from './redis-connection.ts'

const [url = '', ...tags] = process.argv.slice(2)
const connections = openConnections()
const redis = connections.open(url)
for (const tag of tags) {
  await untilWorks(redis, tag)
  await redis.subscribe(`{${tag}}:close`, () => undefined)
}
// A second one is closed while it still connects.
connections.open(url)
await connections.closeAll()
process.stdout.write('works, closed\n')
