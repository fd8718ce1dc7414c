import type { AnyElysia } from 'elysia'

/** A server that takes calls. */
export interface Listening {
  readonly port: number
  /** Takes no new connections and waits for the calls under way; with `true` ends them. Repeating it is harmless. */
  stop(now?: boolean): Promise<void>
}

/**
 * Listens on a port; 0 takes a free one.
 * @param hostname the interface's address; default all interfaces
 * @throws when the port is taken
 */
export function listen(app: AnyElysia, port: number, hostname?: string): Listening {
  app.listen({ port, ...(hostname !== undefined && { hostname }) })
  const { server } = app
  if (!server) throw new Error(`nothing listens on port ${port}`)
  return { port: server.port ?? port, stop: (now = false) => server.stop(now) }
}
