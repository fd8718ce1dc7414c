import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import type { FaultScript, Operation } from './fault-proxy.ts'

/** Languages of the client libraries. */
export type Language = 'typescript' | 'python'
/** Services that cases run on: the real one with records in Redis or in Postgres, and the test kit's in memory. */
export const serviceNames = ['redis', 'postgres', 'memory'] as const
/** Service that cases run on. */
export type ServiceName = (typeof serviceNames)[number]

/** Steps of `work`, decided by the runner while the library waits for it. */
export interface WorkScript {
  /** Steps while `work` runs. */
  readonly do?: readonly Step[]
  /** Waits until the signal of `work` aborts. */
  readonly untilSignal?: boolean
  readonly returns?: unknown
  /** Result as JSON text, which the library's language parses: for numbers that JavaScript cannot hold. */
  readonly returnsJson?: string
  /** Returns a value that is not JSON. */
  readonly returnsNoJson?: true
  /** Throws an exception with this message. */
  readonly throws?: string
  /** Throws `nothingHappened` of an exception with this message. */
  readonly nothingHappened?: string
}

/**
 * Expected result of a call. Members that are absent are not compared. `thrown`: the call throws the exception of `work` (`work`), a
 * `LatchkeyRequestError` (`request`), a `LatchkeyOutcomeError` (`outcome`, with `unwrap`), the reason of the caller's signal (`aborted`), or
 * anything else (`other`).
 */
export interface Expected {
  readonly kind?: string
  readonly thrown?: 'work' | 'request' | 'outcome' | 'aborted' | 'other'
  readonly value?: unknown
  /** The value as JSON text. */
  readonly valueJson?: string
  readonly guarded?: boolean
  readonly phase?: string
  readonly reason?: string
  readonly code?: string
  readonly status?: number
  readonly message?: string
  readonly retryAfterMs?: number
  readonly existed?: boolean
  readonly record?: unknown
  /** Calls that reached the proxy since the case began. */
  readonly calls?: Readonly<Record<string, number>>
  /** Maximum milliseconds of the call. */
  readonly msMax?: number
  /** Minimum milliseconds of the call. */
  readonly msMin?: number
}

/** One call of `once`; `start` names it and goes on with the next step while it runs. */
export interface OnceStep {
  readonly once: Readonly<Record<string, unknown>>
  readonly work?: WorkScript
  /** Answer of the callback `onTakenOver`; `{ throws }` lets it throw. */
  readonly recovery?: 'run' | 'refuse' | { readonly recovered: unknown } | { readonly throws: string }
  readonly unwrap?: true
  readonly start?: string
  readonly expect?: Expected
  /** `takenOver` of the context of `work`. */
  readonly takenOver?: boolean
}

/** Step of a case. `other` is another program's call, straight to the service, with the token of its last lock. */
export type Step =
  | OnceStep
  | { readonly faults: FaultScript }
  | { readonly wait: number }
  /** Waits until so many calls have reached the proxy since the case began. */
  | { readonly until: Readonly<Partial<Record<Operation, number>>> }
  | {
      readonly other: 'acquire' | 'save' | 'extend' | 'release' | 'remove'
      readonly with?: Readonly<Record<string, unknown>>
      /** Members of the answer. */
      readonly answer?: Readonly<Record<string, unknown>>
      readonly status?: number
    }
  /** Waits for a call that was started. */
  | { readonly join: string; readonly expect: Expected }
  /** Aborts the caller's signal of a call that was started. */
  | { readonly abort: string }
  /** Passes the last `pending`, which went through JSON, to `complete`. */
  | { readonly complete: Readonly<Record<string, unknown>>; readonly expect: Expected }
  | { readonly fetchRecord: true; readonly expect: Expected }
  | { readonly removeRecord: true; readonly expect: Expected }
  /** Calls a decorated function with these arguments; the first one is the key. */
  | { readonly decorated: readonly unknown[]; readonly work?: WorkScript; readonly expect: Expected }

/** Case of the record API. */
export interface RecordCase {
  readonly name: string
  /** Options of the client. */
  readonly client?: Readonly<Record<string, unknown>>
  /** Milliseconds by which the wall clock of the library's process is ahead. */
  readonly clockAheadMs?: number
  /** Default: all. */
  readonly languages?: readonly Language[]
  readonly services?: readonly ServiceName[]
  readonly steps: readonly Step[]
  /** Number of times that `work` ran. */
  readonly effects: number
  /** The record at the end; null for none. Default: not compared. */
  readonly record?: unknown
}

/** File of cases. */
export interface Area<Case> {
  /** Name of the file without its ending. */
  readonly area: string
  readonly title: string
  readonly cases: readonly Case[]
}

const folder = join(import.meta.dir, 'cases')

/** Reads the case files whose names begin with a prefix, in the order of their names. */
export function readAreas<Case extends { readonly name: string }>(prefix: string): readonly Area<Case>[] {
  const files = readdirSync(folder).filter((file) => file.startsWith(`${prefix}-`) && file.endsWith('.yaml'))
  return files.toSorted().map((file) => {
    const { title, cases } = parse(readFileSync(join(folder, file), 'utf8')) as {
      title: string
      cases: Case[]
    }
    return { area: file.replace('.yaml', ''), title, cases: expand(cases) as Case[] }
  })
}

/** Cases of the record API by area. */
export const recordAreas = readAreas<RecordCase>('record')

/** Returns whether a case is run with a library, on a service. */
export function isRun(one: RecordCase, language: Language, service: ServiceName): boolean {
  const { languages = [language], services = [service] } = one
  return languages.includes(language) && services.includes(service)
}

interface Described {
  readonly $repeat?: readonly [text: string, times: number]
  readonly $before?: string
  readonly $after?: string
  readonly $nested?: number
}

/** Replaces `{ $repeat: [text, times], $before?, $after? }`, `{ $nested: levels }` and `$sha256:text` by the value that they describe. */
function expand(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(expand)
  if (typeof value === 'string' && value.startsWith('$sha256:')) return Bun.SHA256.hash(value.slice(8), 'hex')
  if (typeof value !== 'object' || value === null) return value
  const { $repeat, $nested, $before, $after } = value as Described
  if ($repeat) return `${$before ?? ''}${$repeat[0].repeat($repeat[1])}${$after ?? ''}`
  if ($nested !== undefined) return nested($nested)
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, expand(each)]))
}

function nested(levels: number): unknown {
  return levels === 0 ? 1 : [nested(levels - 1)]
}
