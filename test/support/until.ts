import { poll } from '#internal/dev/index.ts'

type Check<T> = () => Promise<T | undefined | false> | T | undefined | false

interface Looking {
  readonly what: string
  readonly everyMs: number
  readonly deadlineMs: number | undefined
}

const deadlineMsDefault = 20_000

/**
 * Looks until `check` gives something else than undefined and false, and gives that. One with a name in front asks a server, so
 * it looks each 20 ms; any other each millisecond. @throws after `deadlineMs`, default 20 s
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
  if (found === undefined) throw new Error(`waited ${deadlineMs} ms in vain for: ${what}`)
  return found
}

function orUndefined<T>(found: T | undefined | false): T | undefined {
  return found === false ? undefined : found
}
