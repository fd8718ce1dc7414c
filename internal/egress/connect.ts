import http from 'node:http'
import https from 'node:https'
import net from 'node:net'
import type { Duplex } from 'node:stream'
import tls from 'node:tls'

/** Where to connect to, and as whom the far side must show itself. */
export interface ConnectTarget {
  /** An address that has been judged; never a name. */
  readonly address: string
  readonly port: number
  /** The name or address that the certificate must be valid for; none for plain HTTP. */
  readonly tlsName: string | undefined
  readonly timeoutMs: number
}

/** A proxy taken apart. */
export interface EgressProxy {
  readonly overTls: boolean
  readonly host: string
  readonly port: number
  /** Sent to the proxy alone. */
  readonly authorization: string | undefined
}

/** Takes a proxy's URL apart, user and password percent-encoded in it. @throws TypeError, URIError when it is none */
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

/** How connections leave the platform. */
export interface ConnectPath {
  /** A proxy that is asked for each connection by CONNECT. */
  readonly egressProxy: EgressProxy | undefined
  /** Certificates trusted instead of the runtime's own. */
  readonly ca: string | undefined
}

/** Why there is no connection; nothing of a request was sent. */
export class ConnectError extends Error {
  readonly stage: 'connect_failed' | 'connect_timeout' | 'tls_failed' | 'proxy_failed'
  /** The runtime's code, such as `ECONNREFUSED`, if it gave one. */
  readonly code: string | undefined

  constructor(stage: ConnectError['stage'], cause?: unknown) {
    super(stage, { cause })
    this.stage = stage
    this.code = codeOf(cause)
  }
}

/** The code that the runtime gives an error; undefined when it has none. */
export function codeOf(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' && /^[A-Z][A-Z0-9_]{2,60}$/.test(code) ? code : undefined
}

/**
 * Connects to an address, through the proxy if there is one, and agrees on TLS where a name is given.
 * @throws ConnectError, within `timeoutMs`; nothing stays open then
 */
export async function connect(target: ConnectTarget, path: ConnectPath): Promise<Duplex> {
  const opened: Duplex[] = []
  let timer: Timer | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new ConnectError('connect_timeout')), target.timeoutMs)
  })
  try {
    return await Promise.race([reach(target, path, opened), late])
  } catch (error) {
    for (const socket of opened) socket.destroy()
    throw error
  } finally {
    clearTimeout(timer)
  }
}

async function reach(target: ConnectTarget, path: ConnectPath, opened: Duplex[]): Promise<Duplex> {
  const socket = path.egressProxy
    ? await tunnel(target, path.egressProxy, path.ca, opened)
    : await connected(net.connect({ host: target.address, port: target.port, noDelay: true }), opened)
  return target.tlsName === undefined ? socket : secured(socket, target.tlsName, path.ca, opened)
}

/** A socket that breaks between two owners has nobody to tell; without a listener that would end the process. */
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
    // An address is no server name (RFC 6066, 3), but the certificate must be valid for it all the same.
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
 * Asks the proxy for the address, not for the name, so that what was judged is what is called. Plain HTTP goes through a tunnel
 * as well: in the absolute form a proxy replaces `Host` by the request's target (RFC 9112, 3.2.2), which is the address.
 */
function tunnel(
  target: ConnectTarget,
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
      // Neither TLS nor HTTP lets the far side speak first.
      if (response.statusCode === 200 && head.length === 0) resolve(socket)
      else fail()
    })
    request.once('response', () => fail())
    request.end()
  })
}

/** Said for each connection, so that no variable of the environment turns the check off. */
function trusting(ca: string | undefined) {
  return { rejectUnauthorized: true, minVersion: 'TLSv1.2' as const, ...(ca === undefined ? {} : { ca }) }
}
