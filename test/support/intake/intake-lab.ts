import { apiError, systemClock } from '#internal/base/index.ts'
import { BodyBudget, bindRoutes, createErrorLinks, createServer } from '#internal/http/index.ts'
import {
  Callers,
  type CallersOptions,
  EventQueue,
  type EventQueueOptions,
  type Intake,
  LargeBodies,
  RefusedCalls,
  webhookRoutes,
} from '#internal/intake/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { openerOf, type TestApi, testDocsUrl } from '../api.ts'

/** Webhook intake on fake stores that fail on demand. */
export interface IntakeLab {
  readonly intake: Intake
  /** Pool of the API's database. */
  readonly pool: Pool
  /** Answers a request like the server, without a socket. */
  handle(request: Request): Promise<Response>
  close(): Promise<void>
}

/** Settings in which no provider is paused. */
export const usualSettings: CallersOptions['settings'] = {
  current: { isProviderPaused: () => false, retention: { payloadDays: 30, eventDays: 90 } },
  onChange: () => undefined,
}

const nowhere: EventQueueOptions = {
  storeBatch: async () => ({ kind: 'unavailable' }),
  spool: async () => 'unavailable',
}

/** Opens a lab with an API's tenants; by default all stores are unavailable. */
export function openIntakeLab(
  api: TestApi,
  { callers, ...stores }: EventQueueOptions & { readonly callers?: Callers } = nowhere,
): IntakeLab {
  const pool = createPool({
    url: api.databaseUrl,
    applicationName: 'test',
    connectionsMax: 1,
    queryTimeoutMs: 5_000,
    connectTimeoutMs: 5_000,
  })
  const largeBodies = new LargeBodies()
  const queue = new EventQueue(stores)
  const intake: Intake = {
    callers:
      callers ??
      new Callers({ directory: api.directory, secrets: openerOf(api.directory), settings: usualSettings }),
    queue,
    largeBodies,
    vendorKeys: {
      find: async () => ({ kind: 'unavailable' }),
      findSigner: async () => ({ kind: 'unavailable' }),
      confirm: async () => false,
    },
    refusedCalls: new RefusedCalls(pool, systemClock),
    clock: systemClock,
    signatureAgeMsMax: 300_000,
    checkLimits: () => ({ kind: 'free' }),
    sourceAddressOf: () => null,
    onCall: () => undefined,
  }
  const app = createServer<never, never>({
    routes: bindRoutes(webhookRoutes, intake),
    errorLink: createErrorLinks(testDocsUrl),
    authorize: () => apiError('internal'),
    nameOf: () => '',
    explain: () => undefined,
    onAnswered: () => undefined,
    budgets: {
      keyed: new BodyBudget({ bytesMax: 0 }),
      anonymous: new BodyBudget({ bytesMax: 48 * 1024 * 1024 }),
    },
  })
  return {
    intake,
    pool,
    handle: (request) => app.handle(request),
    close: async () => {
      queue.close()
      largeBodies.close()
      await pool.end()
    },
  }
}
