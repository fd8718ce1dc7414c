import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { parse } from 'yaml'
import { callCounts, faultScript } from './fault-proxy.ts'
import { anyFields, closed, oneOf } from './schema.ts'

/** Languages of the client libraries. */
export type Language = 'typescript' | 'python'

/** Part of the matrix that a suite runs: `change` each case in one column, `nightly` each case in its other columns. */
export type Part = 'change' | 'nightly'

/** Returns the columns of a case: for `change` one, the next for each case, so that all are reached; for `nightly` the others. */
export function columnsIn<Column>(part: Part, columns: readonly Column[], nth: number): Column[] {
  return columns.filter((_column, at) => (at === nth % columns.length) === (part === 'change'))
}

const text = Type.Optional(Type.String())
const flag = Type.Optional(Type.Literal(true))

/**
 * Expected result of a call. Members that are absent are not compared. `thrown`: the call throws the exception of `work` (`work`), a
 * `LatchkeyRequestError` (`request`), a `LatchkeyOutcomeError` (`outcome`, with `unwrap`), the reason of the caller's signal (`aborted`), or
 * anything else (`other`).
 */
export type Expected = Static<typeof expected>
const expected = closed({
  kind: text,
  thrown: Type.Optional(oneOf(['work', 'request', 'outcome', 'aborted', 'other'])),
  value: Type.Optional(Type.Unknown()),
  /** The value as JSON text. */
  valueJson: text,
  guarded: Type.Optional(Type.Boolean()),
  phase: text,
  reason: text,
  code: text,
  status: Type.Optional(Type.Integer()),
  message: text,
  retryAfterMs: Type.Optional(Type.Number()),
  existed: Type.Optional(Type.Boolean()),
  record: Type.Optional(Type.Unknown()),
  /** Calls that reached the proxy since the case began. */
  calls: Type.Optional(callCounts),
  /** Maximum milliseconds of the call. */
  msMax: Type.Optional(Type.Number()),
  /** Minimum milliseconds of the call. */
  msMin: Type.Optional(Type.Number()),
})

const onceOptions = closed({
  scope: text,
  fingerprint: text,
  ttlSeconds: Type.Optional(Type.Number()),
  lockSeconds: Type.Optional(Type.Number()),
  waitMs: Type.Optional(Type.Number()),
  acquireMs: Type.Optional(Type.Number()),
  saveMs: Type.Optional(Type.Number()),
  onUnavailable: Type.Optional(oneOf(['refuse', 'run'])),
  onTakenOver: Type.Optional(oneOf(['refuse', 'run'])),
})

/** Step of a case. */
export type Step = Static<typeof step>
const step = Type.Recursive((Step) => {
  /** Steps of `work`, decided by the runner while the library waits for it. */
  const work = Type.Optional(
    closed({
      /** Steps while `work` runs. */
      do: Type.Optional(Type.Array(Step)),
      /** Waits until the signal of `work` aborts. */
      untilSignal: flag,
      returns: Type.Optional(Type.Unknown()),
      /** Result as JSON text, which the library's language parses: for numbers that JavaScript cannot hold. */
      returnsJson: text,
      /** Returns a value that is not JSON. */
      returnsNoJson: flag,
      /** Throws an exception with this message. */
      throws: text,
      /** Throws `nothingHappened` of an exception with this message. */
      nothingHappened: text,
    }),
  )
  const once = {
    once: onceOptions,
    work,
    /** Answer of the callback `onTakenOver`; `{ throws }` lets it throw. */
    recovery: Type.Optional(
      Type.Union([
        oneOf(['run', 'refuse']),
        closed({ recovered: Type.Unknown() }),
        closed({ throws: Type.String() }),
      ]),
    ),
    unwrap: flag,
    /** Value of `takenOver` in the context of `work`. */
    takenOver: Type.Optional(Type.Boolean()),
  }
  return Type.Union([
    closed({ ...once, expect: expected }),
    /** Names the call and goes on with the next step while it runs. */
    closed({ ...once, start: Type.String() }),
    /** Waits for a call that was started. */
    closed({ join: Type.String(), expect: expected }),
    /** Aborts the caller's signal of a call that was started. */
    closed({ abort: Type.String() }),
    closed({ faults: faultScript }),
    closed({ wait: Type.Number() }),
    /** Waits until so many calls have reached the proxy since the case began. */
    closed({ until: callCounts }),
    /** Call of another program, straight to the service, with the token of its last lock. */
    closed({
      other: oneOf(['acquire', 'save', 'extend', 'release', 'remove']),
      with: Type.Optional(anyFields),
      /** Members of the answer. */
      answer: Type.Optional(anyFields),
      status: Type.Optional(Type.Integer()),
    }),
    /** Passes the last `pending`, which went through JSON, to `complete`. */
    closed({ complete: closed({ saveMs: Type.Optional(Type.Number()) }), expect: expected }),
    closed({ fetchRecord: Type.Literal(true), expect: expected }),
    closed({ removeRecord: Type.Literal(true), expect: expected }),
    /** Calls a decorated function with these arguments; the first one is the key. */
    closed({ decorated: Type.Array(Type.Unknown()), work, expect: expected }),
  ])
})

/** Call of `once`. */
export type OnceStep = Extract<Step, { once: unknown }>
/** Steps of `work`. */
export type WorkScript = NonNullable<OnceStep['work']>

/** Case of the record API. */
export type RecordCase = Static<typeof recordCase>
const recordCase = closed({
  name: Type.String(),
  /** Options of the client. */
  client: Type.Optional(
    closed({
      apiKey: text,
      cache: Type.Optional(closed({ entriesMax: Type.Integer(), maxAgeMs: Type.Integer() })),
    }),
  ),
  /** Milliseconds by which the wall clock of the library's process is ahead. */
  clockAheadMs: Type.Optional(Type.Number()),
  notFor: Type.Optional(Type.Array(oneOf(['typescript', 'python']))),
  steps: Type.Array(step),
  /** Number of times that `work` ran. */
  effects: Type.Integer(),
  /** The record at the end; null for none. Default: not compared. */
  record: Type.Optional(Type.Unknown()),
})

/** File of cases. */
export interface Area<Case> {
  /** Name of the file without its ending. */
  readonly area: string
  readonly title: string
  readonly cases: readonly Case[]
}

const folder = join(import.meta.dir, 'cases')

/** Reads the case files whose names begin with a prefix, in the order of their names. Throws if a case does not fit the schema. */
export function readAreas<Schema extends TSchema>(
  prefix: string,
  schema: Schema,
): readonly Area<Static<Schema>>[] {
  const file = closed({ title: Type.String(), cases: Type.Array(schema) })
  const names = readdirSync(folder).filter((name) => name.startsWith(`${prefix}-`) && name.endsWith('.yaml'))
  return names.toSorted().map((name) => {
    const content = expand(parse(readFileSync(join(folder, name), 'utf8')))
    const error = Value.Errors(file, content).First()
    if (error) throw new Error(`cases/${name} does not fit its schema at ${error.path}: ${error.message}`)
    return { area: name.replace('.yaml', ''), ...(content as Static<typeof file>) }
  })
}

/** Cases of the record API by area. */
export const recordAreas = readAreas('record', recordCase)

/** Returns whether a case is run in a column of the matrix. `Express` in `notFor` stands for all columns whose names begin so. */
export function isRun({ notFor = [] }: { readonly notFor?: readonly string[] }, column: string): boolean {
  return !notFor.some((name) => column.startsWith(name))
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
