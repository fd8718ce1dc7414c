import { connect, createServer, type Socket } from 'node:net'

/** TCP proxy on 127.0.0.1 before a server, which can cut or stall its connections. */
export interface TcpProxy {
  readonly port: number
  /** Closes every connection and refuses new ones. */
  cut(): void
  /** Keeps connections open and forwards nothing. */
  hang(): void
  /** Forwards again, starting with data held back. */
  heal(): void
  /** Closes every connection and forwards new ones to another port. */
  redirect(target: number): void
  close(): Promise<void>
}

/** Starts a proxy before the server at `port` of `host`. */
export async function startTcpProxy(port: number, host = '127.0.0.1'): Promise<TcpProxy> {
  const sockets = new Set<Socket>()
  let mode: 'open' | 'cut' | 'hung' = 'open'
  let target = port
  const server = createServer((client) => {
    if (mode === 'cut') {
      client.destroy()
      return
    }
    const upstream = connect({ port: target, host })
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      if (mode === 'hung') from.pause()
      from.on('data', (bytes) => to.write(bytes))
      from.on('error', () => to.destroy())
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const destroyAll = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    port: address !== null && typeof address === 'object' ? address.port : 0,
    cut: () => {
      mode = 'cut'
      destroyAll()
    },
    hang: () => {
      mode = 'hung'
      for (const socket of sockets) socket.pause()
    },
    heal: () => {
      mode = 'open'
      for (const socket of sockets) socket.resume()
    },
    redirect: (other) => {
      target = other
      destroyAll()
    },
    close: async () => {
      destroyAll()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
