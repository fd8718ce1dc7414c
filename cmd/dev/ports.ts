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

/** Makes the chooser of a dev server. */
export function portChooser(
  env: Readonly<Record<string, string | undefined>>,
  say: (line: string) => void,
): ChoosePort {
  const chosen = new Set<number>()
  return async (wanted) => {
    const port = await choosePort(wanted, {
      isChosen: (one) => chosen.has(one),
      isNamed: Boolean(env[wanted.env]),
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
  readonly say: (line: string) => void
}

/**
 * Gives the port when it is free. When it is taken: another free one, a hundred or more above, if it was only the default, so
 * that two dev servers run side by side.
 * @throws StoreStartError when the port was asked for by name, or none of 20 is free
 */
async function choosePort(wanted: WantedPort, { isChosen, isNamed, say }: Choice): Promise<number> {
  const others = isNamed ? [] : fallbacksOf(wanted.port)
  for (const port of [wanted.port, ...others]) {
    // 0 stands for any that is free.
    if (port !== 0 && isChosen(port)) continue
    // A server on all addresses and one on the loopback may exist side by side on some systems; we want neither.
    if (!(await isPortFree(port)) || !(await isPortFree(port, '0.0.0.0'))) continue
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
