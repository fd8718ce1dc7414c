// Loaded before the operator. SIGUSR2 fills the runtime's fetch pool with hanging calls, so that every further call waits forever, as with
// 256 watches over fetch or with an unresponsive server.
import process from 'node:process'

const callsMax = Number(process.env['BUN_CONFIG_MAX_HTTP_REQUESTS'] ?? 256)
const { promise: never } = Promise.withResolvers<Response>()
const hung = Bun.serve({ port: 0, hostname: '127.0.0.1', idleTimeout: 0, fetch: () => never })
process.on('SIGUSR2', () => {
  for (let call = 0; call < callsMax; call += 1)
    fetch(`http://127.0.0.1:${hung.port}/`).catch(() => undefined)
})
