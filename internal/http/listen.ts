import { isIP } from 'node:net'
import type { AnyElysia } from 'elysia'

/** A server that takes calls. */
export interface Listening {
  readonly port: number
  /** Base URL by which this machine reaches the server, without / at the end: loopback when it listens on all interfaces. */
  readonly url: string
  /** Takes no new connections and waits for the calls under way; with `true` ends them. Repeating it is harmless. */
  stop(now?: boolean): Promise<void>
}

/**
 * Listens on a port; 0 takes a free one.
 * @param bindAddress IP address to listen on; default all interfaces, IPv4 and IPv6
 * @throws when the port is taken or no interface has the address
 */
export function listen(app: AnyElysia, port: number, bindAddress?: string): Listening {
  try {
    app.listen({ port, ...(bindAddress !== undefined && { hostname: bindAddress }) })
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`cannot listen on ${bindAddress ?? 'all interfaces'}, port ${port}: ${why}`, { cause })
  }
  const { server } = app
  if (!server) throw new Error(`nothing listens on port ${port}`)
  const opened = server.port ?? port
  return {
    port: opened,
    url: `http://${urlHost(bindAddress)}:${opened}`,
    stop: (now = false) => server.stop(now),
  }
}

/**
 * Returns the host for URLs by which this machine reaches a server that listens on an IP address: loopback for all interfaces, IPv6 in
 * brackets. Pure.
 */
export function urlHost(bindAddress: string | undefined): string {
  if (bindAddress === undefined || bindAddress === '0.0.0.0') return '127.0.0.1'
  if (bindAddress === '::') return '[::1]'
  return isIP(bindAddress) === 6 ? `[${bindAddress}]` : bindAddress
}
