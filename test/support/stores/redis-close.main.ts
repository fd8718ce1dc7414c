// Opens, uses and closes a connection to the given URL: any resource that `close` leaves open keeps the process alive.
import { openConnections, untilWorks } from './redis-connection.ts'

const [url = '', ...tags] = process.argv.slice(2)
const connections = openConnections()
const redis = connections.open(url)
for (const tag of tags) {
  await untilWorks(redis, tag)
  await redis.subscribe(`{${tag}}:close`, () => undefined)
}
// Closes a second connection while it connects.
connections.open(url)
await connections.closeAll()
process.stdout.write('works, closed\n')
