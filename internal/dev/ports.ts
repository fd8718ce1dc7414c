import { mkdirSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { lockFolder } from './folder-lock.ts'
import { poll, StoreStartError } from './processes.ts'

/** Chooses a free port. Never returns the same port twice, because the first caller may not listen on the port yet. */
export type ChoosePort = (wanted: {
  /** Purpose of the port, as shown in messages. */
  readonly name: string
  readonly env: string
  readonly port: number
}) => Promise<number>

const triesMax = 20
/** Distance from a default port to its first fallback port. The ports directly above a default port are defaults of other processes. */
const fallbackStep = 100
const turnWaitMs = 20_000

/**
 * Checks that a port of a host is free now and returns the port; for port 0, returns any free port. Another process can take the port
 * before the caller listens on it; the caller must then retry.
 * @throws when the given port is taken
 */
export function freePort(port = 0, host = '127.0.0.1'): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ port, host, exclusive: true }, () => {
      const address = server.address() as AddressInfo
      server.close(() => resolve(address.port))
    })
  })
}

export function isPortFree(port: number, host?: string): Promise<boolean> {
  return freePort(port, host).then(
    () => true,
    () => false,
  )
}

/**
 * Creates the port chooser of a dev server. The chooser returns the wanted port if free, otherwise a free port at least 100 higher, so that
 * two dev servers can run on one machine.
 * @throws StoreStartError (from the chooser) when a port set in the environment is taken, or when a default port and its 19 fallback ports
 * are taken
 */
export function portChooser({
  env,
  say,
  bindAddress = '127.0.0.1',
}: {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly say: (line: string) => void
  /** Address that the dev server listens on. The chosen port is also free on 127.0.0.1 and on 0.0.0.0. */
  readonly bindAddress?: string | undefined
}): ChoosePort {
  const chosen = new Set<number>()
  // All these addresses are checked, because some systems let two servers share a port if one listens on all interfaces and the other on
  // the loopback address.
  const hosts = new Set(['127.0.0.1', '0.0.0.0', bindAddress])
  const isFree = async (port: number) => {
    // Port 0 can be chosen repeatedly, because it stands for any free port.
    if (port !== 0 && chosen.has(port)) return false
    for (const host of hosts) if (!(await isPortFree(port, host))) return false
    return true
  }
  return async (wanted) => {
    const others = env[wanted.env] ? [] : fallbacksOf(wanted.port)
    for (const port of [wanted.port, ...others]) {
      if (!(await isFree(port))) continue
      if (port !== wanted.port)
        say(`Port ${wanted.port} is taken: the ${wanted.name} uses ${port} (set ${wanted.env} to choose)`)
      chosen.add(port)
      return port
    }
    const taken = others.length === 0 ? '' : ` and ${others[0]} to ${others.at(-1)}`
    throw new StoreStartError(
      `Port ${wanted.port}${taken} for the ${wanted.name} is taken: stop the process that uses the port, or set ${wanted.env} to another port`,
    )
  }
}

/** Returns the ports that are tried after `port`, in this order. */
export function fallbacksOf(port: number): readonly number[] {
  return Array.from({ length: triesMax - 1 }, (_none, nth) => port + fallbackStep + nth)
}

/**
 * Runs `work`, which chooses ports and listens on them, in mutual exclusion with other dev servers. Otherwise two servers that start at the
 * same time would choose the same ports.
 */
export async function inPortTurn<T>(work: () => Promise<T>): Promise<T> {
  const dir = join(tmpdir(), `latchkey-ports-${process.getuid?.() ?? 0}`)
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const turn = await poll(
    () => {
      const result = lockFolder(dir)
      return result.kind === 'locked' ? result.lock : undefined
    },
    { deadlineMs: turnWaitMs, everyMs: 50 },
  )
  if (!turn) throw new StoreStartError(`Another dev server has held ${dir} for too long; stop that server`)
  try {
    return await work()
  } finally {
    turn.release()
  }
}
