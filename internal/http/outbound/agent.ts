import http from 'node:http'
import https from 'node:https'
import type { Duplex } from 'node:stream'
import { type ConnectPath, connect } from './connect.ts'

/** What a request gives an agent beside Node's own options. */
export interface AgentRequest {
  readonly tlsName: string | undefined
  readonly connectTimeoutMs: number
}

/** An agent that opens its connections by `connect`, to the address in `host`. */
export type CallbackAgent = http.Agent

type ConnectRequest = http.ClientRequestArgs & AgentRequest
type Connected = (error: unknown, socket?: Duplex) => void

/** Servers commonly close an idle connection after 5 s (Node's own default); this is before that. */
const idleMs = 4000
const idlePerCallbackMax = 64
/** Above it a connection is closed after its answer, so that many callbacks do not hold all of a process' descriptors. */
const openMax = 2048

/**
 * Makes an agent for one scheme. With `keepAlive`, idle connections are kept for 4 s, at most 64 for one address, port and name,
 * and used again for the same three only; close them by `destroy()`.
 */
export function createCallbackAgent(
  scheme: 'http' | 'https',
  path: ConnectPath,
  keepAlive: boolean,
): CallbackAgent {
  const options = {
    keepAlive,
    timeout: idleMs,
    maxFreeSockets: idlePerCallbackMax,
    scheduling: 'lifo' as const,
  }
  const agent = scheme === 'https' ? new https.Agent(options) : new http.Agent(options)
  let open = 0
  const keepSocketAlive = agent.keepSocketAlive.bind(agent)

  async function openSocket(request: ConnectRequest, done: Connected): Promise<void> {
    let socket: Duplex
    try {
      socket = await connect(
        {
          address: String(request.host),
          port: Number(request.port),
          tlsName: request.tlsName,
          timeoutMs: request.connectTimeoutMs,
        },
        path,
      )
    } catch (error) {
      done(error)
      return
    }
    open += 1
    socket.once('close', () => {
      open -= 1
    })
    done(null, socket)
  }

  return Object.assign(agent, {
    keepSocketAlive: (socket: Duplex) => open <= openMax && keepSocketAlive(socket),
    createConnection: (request: ConnectRequest, done: Connected) => void openSocket(request, done),
  })
}
