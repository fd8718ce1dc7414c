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
/** The ports right behind a default one are the defaults of other processes. */
const fallbackStep = 100
const turnWaitMs = 20_000

/** Chooses ports one after the other, none twice: what was chosen may not be listened on yet. */
export type ChoosePort = (wanted: WantedPort) => Promise<number>

/** Addresses and ports that the settings ask for. */
export interface PortChooserOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Prints a line for the person at the terminal. */
  readonly say: (line: string) => void
  /** Where they will be listened on; a port also has to be free on 127.0.0.1 and on all interfaces. */
  readonly bindAddress?: string | undefined
}

/** Makes the chooser of a dev server. */
export function portChooser({ env, say, bindAddress = '127.0.0.1' }: PortChooserOptions): ChoosePort {
  const chosen = new Set<number>()
  return async (wanted) => {
    const port = await choosePort(wanted, {
      isChosen: (one) => chosen.has(one),
      isNamed: Boolean(env[wanted.env]),
      addresses: new Set(['127.0.0.1', '0.0.0.0', bindAddress]),
      say,
    })
    chosen.add(port)
    return port
  }
}

interface Choice {
  readonly isChosen: (port: number) => boolean
  /** It was asked for by its setting. */
  readonly isNamed: boolean
  /** A server on all addresses and one on the loopback may exist side by side on some systems; we want neither. */
  readonly addresses: ReadonlySet<string>
  readonly say: (line: string) => void
}

/**
 * Gives the port when it is free. When it is taken: another free one, a hundred or more above, if it was only the default, so
 * that two dev servers run side by side.
 * @throws StoreStartError when the port was asked for by name, or none of 20 is free
 */
async function choosePort(
  wanted: WantedPort,
  { isChosen, isNamed, addresses, say }: Choice,
): Promise<number> {
  const others = isNamed ? [] : fallbacksOf(wanted.port)
  for (const port of [wanted.port, ...others]) {
    // 0 stands for any that is free.
    if (port !== 0 && isChosen(port)) continue
    if (!(await isFreeOn(addresses, port))) continue
    if (port !== wanted.port)
      say(`Port ${wanted.port} is taken: the ${wanted.name} uses ${port} (set ${wanted.env} to choose)`)
    return port
  }
  throw new StoreStartError(
    others.length === 0
      ? `Port ${wanted.port} for the ${wanted.name} is taken: end its user, or set ${wanted.env} to another`
      : `Port ${wanted.port} and ${others[0]} to ${others.at(-1)} for the ${wanted.name} are taken: set ${wanted.env} to a free one`,
  )
}

async function isFreeOn(addresses: ReadonlySet<string>, port: number): Promise<boolean> {
  for (const address of addresses) if (!(await isPortFree(port, address))) return false
  return true
}

/** The ports that stand in for a default one that is taken, in the order of trying. */
export function fallbacksOf(port: number): readonly number[] {
  return Array.from({ length: triesMax - 1 }, (_none, nth) => port + fallbackStep + nth)
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
