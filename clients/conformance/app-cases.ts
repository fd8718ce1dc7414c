import { type Area, readAreas } from './cases.ts'
import type { FaultScript } from './fault-proxy.ts'

/** Frameworks and ways of use that run the cases of middleware and receivers, as columns of the matrix. */
export const frameworks = {
  typescript: [
    'Fetch API',
    'Hono',
    'Elysia',
    'Express 5',
    'Express 5, parser first',
    'Express 4',
    'Express 4, parser first',
    'Fastify',
  ],
  python: ['Starlette', 'FastAPI', 'ASGI'],
} as const

/** Framework and way of use. */
export type Framework = (typeof frameworks)[keyof typeof frameworks][number]

/** Instructions for a handler of an app. Its text can name `{run}`, `{body}` and `{takenOver}`. */
export interface HandlerScript {
  /** Default 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string | readonly string[]>>
  /** Body; sent in `parts` equal writes if that is given. */
  readonly text?: string
  readonly base64?: string
  /** Repeats the body; for long ones. */
  readonly times?: number
  readonly parts?: number
  /** Waits for the step `finish` before the response. */
  readonly hold?: true
  /** Declares that nothing happened, before the response. */
  readonly nothingHappened?: true
  /** Throws an exception instead of the response. */
  readonly throws?: 'error' | 'nothingHappened'
  /** Rejects the event; for receivers. */
  readonly rejects?: 'gone' | 'disable' | 'abort'
  /** Catches the exception of `rejects`, and returns. */
  readonly catches?: true
}

/** Request to a guarded route. */
export interface AppRequest {
  /** Default POST. */
  readonly method?: string
  /** Default `/charges`. `/orders/1` and `/events` exist, too. */
  readonly path?: string
  readonly body?: string
  /** Value of `Idempotency-Key`: one of the case by default, none for null. */
  readonly key?: string | readonly string[] | null
  /** Caller; `ada` by default. */
  readonly user?: string
}

/** Delivery to the receiver. */
export interface AppDelivery {
  /** Secret that signs: one of the two of the receiver, or another. */
  readonly secret?: 'first' | 'second' | 'other'
  readonly ageSeconds?: number
  /** Change after the signature. */
  readonly change?: 'body' | 'no signature' | 'malformed signature'
  /** Signed body instead of an event. */
  readonly body?: string
  /** Bytes that are added to the event's payload. */
  readonly padding?: number
}

/** Expected response. Members that are absent are not compared. */
export interface ExpectedResponse {
  readonly status?: number
  readonly text?: string
  readonly base64?: string
  /** Bytes of the body. */
  readonly bytes?: number
  /** Code of a problem, whose shape is then compared, too. */
  readonly code?: string
  /** Text in the detail of a problem. */
  readonly detail?: string
  readonly replayed?: boolean
  /** Null for a header that is absent. */
  readonly headers?: Readonly<Record<string, string | null>>
  readonly cookies?: readonly string[]
  /** Maximum milliseconds of the call. */
  readonly msMax?: number
}

/** A call, which `start` names and leaves running; with `eventually` it is repeated until the response is as expected. */
interface CallStep {
  readonly handler?: HandlerScript
  readonly start?: string
  readonly eventually?: true
  readonly expect?: ExpectedResponse
}

/** Step of a case. */
export type AppStep =
  | ({ readonly request: AppRequest } & CallStep)
  | ({ readonly deliver: AppDelivery } & CallStep)
  /** Several equal requests at the same time, with the same expected response. */
  | { readonly together: number; readonly request: AppRequest; readonly expect: ExpectedResponse }
  | { readonly faults: FaultScript }
  /** Waits until the handler was called so often. */
  | { readonly untilRuns: number }
  /** Lets handlers that hold go on. */
  | { readonly finish: true }
  | { readonly join: string; readonly expect: ExpectedResponse }
  /** Another program's call, straight to the service. The key is that of the case, without a principal, or the event's id. */
  | {
      readonly other: 'save' | 'remove'
      readonly scope: string
      readonly with?: Readonly<Record<string, unknown>>
    }

/** Case of a guarded route or of a receiver. */
export interface AppCase {
  readonly name: string
  /** Options of the middleware or of the receiver, in the names of TypeScript. `principal: none`; `savedBelow` for `save`. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Default: all. */
  readonly frameworks?: readonly Framework[]
  /** Frameworks that cannot do it. */
  readonly notFor?: readonly Framework[]
  /** Ways of finding repetitions, for receivers. Default: both. */
  readonly by?: readonly Deduplication[]
  /** Default for all steps. */
  readonly handler?: HandlerScript
  readonly steps: readonly AppStep[]
  /** Number of times that the handler was called. */
  readonly runs: number
  /** Events that are handled in the end, of receivers. Default: `runs`. */
  readonly handled?: number
}

/** Ways in which a receiver finds repetitions. */
export const deduplications = ['records', 'transaction', 'none'] as const
/** Way in which a receiver finds repetitions. */
export type Deduplication = (typeof deduplications)[number]

/** Cases of guarded routes by area. */
export const middlewareAreas: readonly Area<AppCase>[] = readAreas<AppCase>('middleware')
/** Cases of receivers by area. */
export const receiverAreas: readonly Area<AppCase>[] = readAreas<AppCase>('receiver')

/** Returns whether a case is run on a framework. */
export function runsOn({ frameworks: only, notFor = [] }: AppCase, framework: Framework): boolean {
  return (only === undefined || only.includes(framework)) && !notFor.includes(framework)
}

/** Returns how the receiver of a case finds repetitions. */
export function deduplicationsOf({ by = ['records', 'transaction'] }: AppCase): readonly Deduplication[] {
  return by
}
