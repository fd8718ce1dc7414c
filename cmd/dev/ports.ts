import { mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isPortFree, lockFolder, poll, StoreStartError } from '#internal/dev/index.ts'

/** A port that the dev server wants. */
export interface WantedPort {
  /** What it is for, as the message says it. */
  readonly name: string
  /** The setting that names it. */
  readonly env: string
  readonly port: number
}

const triesMax = 20
const turnWaitMs = 20_000

/**
 * Gives the port when it is free. When it is taken: the next free one if it was only the default, so that two dev servers run
 * side by side.
 * @throws StoreStartError when the port was asked for by name, or none of 20 is free
 */
export async function choosePort(
  wanted: WantedPort,
  env: Readonly<Record<string, string | undefined>>,
  say: (line: string) => void,
): Promise<number> {
  const tries = env[wanted.env] ? 1 : triesMax
  for (let port = wanted.port; port < wanted.port + tries && port <= 65_535; port += 1) {
    // A server on all addresses and one on the loopback may exist side by side on some systems; we want neither.
    if (!(await isPortFree(port)) || !(await isPortFree(port, '0.0.0.0'))) continue
    if (port !== wanted.port)
      say(`Port ${wanted.port} is taken: the ${wanted.name} uses ${port} (set ${wanted.env} to choose)`)
    return port
  }
  const last = wanted.port + tries - 1
  throw new StoreStartError(
    tries === 1
      ? `Port ${wanted.port} for the ${wanted.name} is taken: end its user, or set ${wanted.env} to another`
      : `Ports ${wanted.port} to ${last} for the ${wanted.name} are taken: set ${wanted.env} to a free one`,
  )
}

/**
 * Runs `work`, which looks for free ports and listens on them, while no other dev server does so: two that start at the same
 * moment would otherwise find the same ports free.
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
  if (!turn) throw new StoreStartError(`Another dev server holds ${dir} for too long; end it`)
  try {
    return await work()
  } finally {
    turn.release()
  }
}
