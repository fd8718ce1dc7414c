import http from 'node:http'
import https from 'node:https'
import net from 'node:net'
import type { Duplex } from 'node:stream'
import tls from 'node:tls'

/** A connection is reused only for an equal endpoint. */
export interface Endpoint {
  /** Validated IP address, never a name. */
  readonly address: string
  readonly port: number
  /** Name or address for which the certificate must be valid; undefined for plain HTTP. */
  readonly tlsName: string | undefined
}

/** Parsed `LATCHKEY_EGRESS_PROXY`. */
export interface EgressProxy {
  readonly overTls: boolean
  readonly host: string
  readonly port: number
  /** Value of `Proxy-Authorization`, sent only to the proxy. */
  readonly authorization: string | undefined
}

export interface ConnectPath {
  readonly egressProxy: EgressProxy | undefined
  /** PEM certificates that are trusted instead of the CAs of the runtime. */
  readonly ca: string | undefined
}

/** Parses a proxy URL; decodes a percent-encoded user and password. @throws TypeError, URIError if the text is not a proxy URL */
export function parseEgressProxy(text: string): EgressProxy {
  const { protocol, hostname, port, username, password } = new URL(text)
  const overTls = protocol === 'https:'
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return {
    overTls,
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? (overTls ? 443 : 80) : Number(port),
    authorization: credentials === ':' ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`,
  }
}

/** Failure to establish a connection: no byte of a request was sent. */
export class ConnectError extends Error {
  readonly stage: 'connect_failed' | 'connect_timeout' | 'tls_failed' | 'proxy_failed'
  /** Error code of the runtime, such as `ECONNREFUSED`. */
  readonly code: string | undefined

  constructor(stage: ConnectError['stage'], cause?: unknown) {
    super(stage, { cause })
    this.stage = stage
    this.code = codeOf(cause)
  }
}

export function codeOf(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' && /^[A-Z][A-Z0-9_]{2,60}$/.test(code) ? code : undefined
}

/** Times of `performance.now()` at which steps ended. A step that has not ended is absent. */
export interface ConnectMarks {
  /** End of the TCP handshake, or of the proxy's reply that opens the tunnel. */
  connectedAtMs?: number
  securedAtMs?: number
}

/** Callbacks for the request that uses a connection. */
export interface ConnectionUser {
  data(bytes: Buffer): void
  /** Called when the server has half-closed the connection and sends no more data. */
  ended(): void
  /** Called when the connection broke or was closed: once, after all other callbacks. */
  closed(error: unknown): void
}

/**
 * Socket that serves one request after another. Its listeners are set once and forward events to the current user. Data that arrives while
 * no request uses the socket closes it, because it would be taken for the response to a later request (response smuggling).
 */
export class Connection {
  readonly #socket: Duplex
  #user: ConnectionUser | undefined
  #isClosed = false
  /** Start of the idle time, from `performance.now()`. */
  idleSinceMs = 0

  constructor(socket: Duplex, onClosed: (connection: Connection) => void) {
    this.#socket = socket
    let error: unknown
    socket.on('data', (bytes: Buffer) => (this.#user ? this.#user.data(bytes) : this.close()))
    socket.on('end', () => (this.#user ? this.#user.ended() : this.close()))
    socket.on('error', (one) => {
      error = one
    })
    socket.on('close', () => {
      this.#isClosed = true
      onClosed(this)
      this.#user?.closed(error)
    })
  }

  get isUsable(): boolean {
    return !this.#isClosed && !this.#socket.destroyed && this.#socket.writable && this.#socket.readable
  }

  /** True if all written bytes were passed to the kernel. */
  get isFlushed(): boolean {
    return this.#socket.writableLength === 0
  }

  /** Sets the user that receives events. With undefined, the connection becomes idle. */
  use(user: ConnectionUser | undefined): void {
    this.#user = user
  }

  write(bytes: Buffer): void {
    this.#socket.write(bytes)
  }

  close(): void {
    this.#socket.destroy()
  }
}

/** Maximum idle time. Servers commonly close idle connections after 5 s (default of Node.js), so an earlier close avoids a race. */
const idleMs = 4000
const sweepMs = 1000
/** Equals the maximum calls in flight of one tenant in a process. */
const idlePerEndpointMax = 64
/** Open connections above which a connection is closed after its response, so that callbacks do not use up the file descriptors. */
const openMax = 2048

/** Keeps idle connections for 4 s, at most 64 per endpoint, and reuses them only for the same endpoint. */
export class Connections {
  readonly #path: ConnectPath
  readonly #idle = new Map<string, Connection[]>()
  #open = 0
  #sweeping: Timer | undefined

  constructor(path: ConnectPath) {
    this.#path = path
  }

  takeIdle(endpoint: Endpoint): Connection | undefined {
    const idle = this.#idle.get(keyOf(endpoint))
    // Takes the latest idle connection, so that surplus ones reach the maximum idle time and are closed.
    for (let one = idle?.pop(); one !== undefined; one = idle?.pop()) if (one.isUsable) return one
    return undefined
  }

  /** Opens a connection, and writes the end of each step to `marks`. @throws ConnectError, within `timeoutMs` */
  async open(endpoint: Endpoint, timeoutMs: number, marks: ConnectMarks = {}): Promise<Connection> {
    const socket = await connect(endpoint, this.#path, timeoutMs, marks)
    this.#open += 1
    return new Connection(socket, (connection) => this.#forget(endpoint, connection))
  }

  /** Returns a connection to the pool after a complete response. Closes it if the pool is full. */
  keep(endpoint: Endpoint, connection: Connection): void {
    connection.use(undefined)
    const key = keyOf(endpoint)
    const idle = this.#idle.get(key) ?? []
    if (this.#open > openMax || idle.length >= idlePerEndpointMax || !connection.isUsable) {
      connection.close()
      return
    }
    connection.idleSinceMs = performance.now()
    idle.push(connection)
    this.#idle.set(key, idle)
    this.#sweeping ??= setInterval(() => this.#sweep(), sweepMs).unref()
  }

  /** Closes idle connections only. Idempotent. */
  close(): void {
    clearInterval(this.#sweeping)
    this.#sweeping = undefined
    for (const idle of this.#idle.values()) for (const one of idle) one.close()
    this.#idle.clear()
  }

  #sweep(): void {
    const sinceMs = performance.now() - idleMs
    for (const [key, idle] of this.#idle) {
      // The list is sorted by idle time, longest first.
      while (idle[0] && idle[0].idleSinceMs <= sinceMs) idle.shift()?.close()
      if (idle.length === 0) this.#idle.delete(key)
    }
    if (this.#idle.size > 0) return
    clearInterval(this.#sweeping)
    this.#sweeping = undefined
  }

  #forget(endpoint: Endpoint, connection: Connection): void {
    this.#open -= 1
    const idle = this.#idle.get(keyOf(endpoint))
    const at = idle?.indexOf(connection) ?? -1
    if (at >= 0) idle?.splice(at, 1)
  }
}

function keyOf({ address, port, tlsName }: Endpoint): string {
  return `${tlsName ?? ''} ${port} ${address}`
}

/** Opens a socket: TCP or proxy tunnel, then TLS if the endpoint has a name. Leaves no socket open when it throws. */
async function connect(
  endpoint: Endpoint,
  path: ConnectPath,
  timeoutMs: number,
  marks: ConnectMarks,
): Promise<Duplex> {
  const opened: Duplex[] = []
  let timer: Timer | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new ConnectError('connect_timeout')), timeoutMs)
  })
  const { address, port, tlsName } = endpoint
  const reach = async () => {
    const socket = path.egressProxy
      ? await tunnel(endpoint, path.egressProxy, path.ca, opened)
      : await connected(net.connect({ host: address, port, noDelay: true }), opened)
    marks.connectedAtMs = performance.now()
    if (tlsName === undefined) return socket
    const secure = await secured(socket, tlsName, path.ca, opened)
    marks.securedAtMs = performance.now()
    return secure
  }
  try {
    return await Promise.race([reach(), late])
  } catch (error) {
    for (const socket of opened) socket.destroy()
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** Registers a socket for clean-up, and an error listener: without one, a socket that breaks would end the process. */
function hold(socket: Duplex, opened: Duplex[]): void {
  socket.on('error', () => {})
  opened.push(socket)
}

function connected(socket: net.Socket, opened: Duplex[]): Promise<Duplex> {
  hold(socket, opened)
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => reject(new ConnectError('connect_failed', error))
    socket.once('error', fail)
    socket.once('connect', () => {
      socket.off('error', fail)
      resolve(socket)
    })
  })
}

function secured(socket: Duplex, tlsName: string, ca: string | undefined, opened: Duplex[]): Promise<Duplex> {
  const secure = tls.connect({
    socket,
    // An IP address must not be sent as server name (RFC 6066, 3), although the certificate must be valid for it.
    servername: net.isIP(tlsName) === 0 ? tlsName : '',
    checkServerIdentity: (_host, certificate) => tls.checkServerIdentity(tlsName, certificate),
    ALPNProtocols: ['http/1.1'],
    ...trusting(ca),
  })
  hold(secure, opened)
  return new Promise((resolve, reject) => {
    const fail = (error?: Error) => reject(new ConnectError('tls_failed', error))
    const ended = () => fail()
    secure.once('error', fail)
    secure.once('close', ended)
    secure.once('secureConnect', () => {
      secure.off('error', fail)
      secure.off('close', ended)
      if (secure.authorized) resolve(secure)
      else fail(secure.authorizationError)
    })
  })
}

/**
 * Opens a tunnel to the validated address, not to the name, so that the proxy cannot resolve the name to another address. Plain HTTP is
 * tunnelled as well: given an absolute request target, which would be the address, the proxy would replace `Host` by it (RFC 9112, 3.2.2).
 */
function tunnel(
  target: Endpoint,
  proxy: EgressProxy,
  ca: string | undefined,
  opened: Duplex[],
): Promise<Duplex> {
  const authority = `${net.isIPv6(target.address) ? `[${target.address}]` : target.address}:${target.port}`
  const { host, port, overTls, authorization } = proxy
  const request = (overTls ? https : http).request({
    method: 'CONNECT',
    host,
    port,
    path: authority,
    agent: false,
    headers: {
      host: authority,
      ...(authorization === undefined ? {} : { 'proxy-authorization': authorization }),
    },
    ...(overTls ? trusting(ca) : {}),
  })
  request.on('socket', (socket) => hold(socket, opened))
  return new Promise((resolve, reject) => {
    const fail = (error?: Error) => reject(new ConnectError('proxy_failed', error))
    request.on('error', fail)
    request.once('connect', (response, socket, head) => {
      hold(socket, opened)
      // The client sends first in TLS and HTTP, so bytes that arrive now do not come from the target.
      if (response.statusCode === 200 && head.length === 0) resolve(socket)
      else fail()
    })
    request.once('response', () => fail())
    request.end()
  })
}

/** Returns TLS options that enable verification, so that `NODE_TLS_REJECT_UNAUTHORIZED` cannot disable it. */
function trusting(ca: string | undefined) {
  return { rejectUnauthorized: true, minVersion: 'TLSv1.2' as const, ...(ca === undefined ? {} : { ca }) }
}
