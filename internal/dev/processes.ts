import { readdir, readFile } from 'node:fs/promises'
import { poll } from './poll.ts'
import { StoreStartError } from './start-error.ts'

/** A live process of this machine, as its command line shows it: the arguments joined by one space. */
export interface ProcessFacts {
  readonly pid: number
  readonly command: string
}

/** Lists the live processes, zombies left out: from /proc where there is one, otherwise by `ps`. */
export async function listProcesses(): Promise<ProcessFacts[]> {
  const pids = await readdir('/proc').catch(() => [])
  const numbers = pids.filter((name) => /^\d+$/.test(name)).map(Number)
  return numbers.length > 0 ? fromProc(numbers) : parsePs(await runPs())
}

async function fromProc(pids: readonly number[]): Promise<ProcessFacts[]> {
  const facts = await Promise.all(
    pids.map(async (pid) => {
      // A process may end between the listing and the read; a zombie's and a kernel thread's line is empty.
      const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
      return { pid, command: line.replaceAll('\0', ' ').trim() }
    }),
  )
  return facts.filter((fact) => fact.command !== '')
}

async function runPs(): Promise<string> {
  const ps = Bun.spawn(['ps', '-axww', '-o', 'pid=,stat=,command='], { stdout: 'pipe', stderr: 'ignore' })
  return new Response(ps.stdout).text()
}

/** Reads the answer of `ps -o pid=,stat=,command=`. */
export function parsePs(text: string): ProcessFacts[] {
  const facts: ProcessFacts[] = []
  for (const line of text.split('\n')) {
    const [, pid, state, command] = /^\s*(\d+)\s+(\S+)\s+(.*\S)\s*$/.exec(line) ?? []
    if (pid && state && command && !state.startsWith('Z')) facts.push({ pid: Number(pid), command })
  }
  return facts
}

/** A signal to send, and how long the receiver then has to be gone. */
export interface EndStep {
  readonly signal: NodeJS.Signals
  readonly waitMs: number
}

/**
 * Ends every process that `isOurs` recognises by its command line, one step after the other until none is left. Repeating
 * it is safe. Gives the pids that it found.
 * @throws StoreStartError when one survives the last step or belongs to another user
 */
export async function endProcesses(
  isOurs: (fact: ProcessFacts) => boolean,
  steps: readonly EndStep[],
): Promise<number[]> {
  const first = (await listProcesses()).filter(isOurs)
  let left = first
  for (const step of steps) {
    if (left.length === 0) break
    // A suspended one hears of the first signal only after the second.
    for (const { pid } of left) if (signalProcess(pid, step.signal)) signalProcess(pid, 'SIGCONT')
    const gone = await poll(
      async () => {
        left = (await listProcesses()).filter(isOurs)
        return left.length === 0 || undefined
      },
      { deadlineMs: step.waitMs, everyMs: 50 },
    )
    if (gone) break
  }
  if (left.length > 0) throw new StoreStartError(`process ${left[0]?.pid} does not end; end it with kill -9`)
  return first.map((fact) => fact.pid)
}

/** Sends a signal; false when the process is gone already. @throws StoreStartError when it belongs to another user */
export function signalProcess(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return false
    throw new StoreStartError(`process ${pid} belongs to another user and cannot be ended from here`, {
      cause: error,
    })
  }
}
