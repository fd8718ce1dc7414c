// Loaded before an operator's own code: from SIGUSR2 on as many calls hang as the runtime has in flight at once, so that any
// further one waits without an end. What 256 watches over fetch did, and what a server of anything else could do.
import process from 'node:process'

const callsMax = Number(process.env['BUN_CONFIG_MAX_HTTP_REQUESTS'] ?? 256)
const { promise: never } = Promise.withResolvers<Response>()
const hung = Bun.serve({ port: 0, hostname: '127.0.0.1', idleTimeout: 0, fetch: () => never })
process.on('SIGUSR2', () => {
  for (let call = 0; call < callsMax; call += 1)
    fetch(`http://127.0.0.1:${hung.port}/`).catch(() => undefined)
})
