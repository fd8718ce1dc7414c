import { connect, createServer, type Socket } from 'node:net'

/** What a proxy does with the next COMMIT: loses the call, loses its answer, or keeps the answer and the connection. */
export type CommitFault = 'call' | 'answer' | 'hang'

/** TCP proxy before Postgres that can lose a COMMIT. */
export interface CommitProxy {
  /** URL of the database through the proxy. */
  readonly url: string
  /** Applies to the next COMMIT only. */
  failNext(fault: CommitFault): void
  close(): Promise<void>
}

/** Starts a proxy before the server of a database URL. */
export async function startCommitProxy(databaseUrl: string): Promise<CommitProxy> {
  const target = new URL(databaseUrl)
  const sockets = new Set<Socket>()
  let next: CommitFault | undefined
  const server = createServer((client) => {
    const upstream = connect({ host: target.hostname, port: Number(target.port || 5432) })
    let fault: CommitFault | undefined
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
    }
    client.on('data', (bytes) => {
      if (next !== undefined && /\bcommit\b/i.test(bytes.toString('latin1'))) {
        fault = next
        next = undefined
        if (fault === 'call') return client.destroy()
      }
      return upstream.write(bytes)
    })
    upstream.on('data', (bytes) => {
      if (fault === 'answer') client.destroy()
      else if (fault === undefined) client.write(bytes)
    })
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const url = new URL(databaseUrl)
  url.hostname = '127.0.0.1'
  url.port = String(address !== null && typeof address === 'object' ? address.port : 0)
  return {
    url: url.href,
    failNext: (fault) => {
      next = fault
    },
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
