import { poll } from '#internal/dev/index.ts'

type Check<T> = () => Promise<T | undefined | false> | T | undefined | false

interface Looking {
  readonly what: string
  readonly everyMs: number
  readonly deadlineMs: number | undefined
}

const deadlineMsDefault = 20_000

/**
 * Repeats `check` until it returns neither undefined nor false, and returns the result. A named check queries a server and is
 * repeated every 20 ms, others every ms. @throws after `deadlineMs`, default 20 s
 */
export function until<T>(check: Check<T>, deadlineMs?: number): Promise<T>
export function until<T>(what: string, check: Check<T>, deadlineMs?: number): Promise<T>
export function until<T>(first: string | Check<T>, second?: Check<T> | number, third?: number): Promise<T> {
  if (typeof first === 'function')
    return look(first, { what: String(first), everyMs: 1, deadlineMs: second as number | undefined })
  return look(second as Check<T>, { what: first, everyMs: 20, deadlineMs: third })
}

async function look<T>(
  check: Check<T>,
  { what, everyMs, deadlineMs = deadlineMsDefault }: Looking,
): Promise<T> {
  const found = await poll(async () => orUndefined(await check()), { deadlineMs, everyMs })
  if (found === undefined) throw new Error(`timed out after ${deadlineMs} ms waiting for: ${what}`)
  return found
}

function orUndefined<T>(found: T | undefined | false): T | undefined {
  return found === false ? undefined : found
}
