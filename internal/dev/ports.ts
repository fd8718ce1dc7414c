import { createServer } from 'node:net'

/**
 * Gives a port of 127.0.0.1 that nobody listens on now. Somebody else may take it before its user does, so that user
 * tries again with another.
 */
export function freePort(): Promise<number> {
  return listenOnce(0)
}

/** Tells whether a port of 127.0.0.1 can be listened on now. */
export async function isPortFree(port: number, host = '127.0.0.1'): Promise<boolean> {
  return listenOnce(port, host).then(
    () => true,
    () => false,
  )
}

function listenOnce(port: number, host = '127.0.0.1'): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ port, host, exclusive: true }, () => {
      const address = server.address()
      server.close(() => {
        if (address !== null && typeof address === 'object') resolve(address.port)
        else reject(new Error('a listening socket without a port'))
      })
    })
  })
}
