import { type Clock, randomToken } from '#internal/base/index.ts'
import {
  type AcceptContext,
  acceptWebhook,
  type Caller,
  type Callers,
  createWalletSigner,
  signCard,
  type WalletSigner,
} from '#internal/intake/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import { eventBody } from './chargeback.ts'
import type { SimulationState } from './simulation.ts'
import {
  type ClaimedStep,
  claimSteps,
  completeStep,
  decideStep,
  type StepOutcome,
  type StepVerdict,
} from './step.ts'

/** Dependencies of the simulator. The caller closes them. */
export interface SimulatorOptions {
  readonly pool: Pool
  /** Accepts simulated calls in the same way as real calls. */
  readonly intake: AcceptContext & { readonly callers: Pick<Callers, 'byTenant'> }
  readonly directory: Pick<Directory, 'findTenantById'>
  readonly clock: Clock
  /** Lease of a step in milliseconds; default 30 000. It must exceed the time that intake needs to accept a call. */
  readonly leaseMs?: number
  /** Called once per step, whether or not its event was accepted. Must not throw. */
  onStep(report: StepReport): void
}

/** Report of one step of a simulation, which sends one event, with its outcome. */
export interface StepReport {
  readonly step: ClaimedStep
  readonly outcome: StepOutcome['kind']
  readonly verdict: StepVerdict
  /** State of the simulation after the step. Undefined if another process has taken over the step, or if writing its result failed. */
  readonly state: SimulationState | undefined
  /** Unexpected error of the step, or error of writing its result. In the second case the step is repeated when its lease expires. */
  readonly cause?: unknown
}

const defaultLeaseMs = 30_000
/** Maximum simulated events in flight. They share intake's batches and connections with real calls. */
const rowsMax = 16
/** Maximum claims per `runOnce`. */
const claimsMax = 50

/** Sends due simulated events, in order, through the same path as real calls. Any number of processes share the work. */
export class Simulator {
  readonly #options: SimulatorOptions
  /** Signer of wallet calls, created with the first such call. */
  #wallet: Promise<WalletSigner> | undefined

  constructor(options: SimulatorOptions) {
    this.#options = options
  }

  /**
   * Sends due events until no event is due, the signal is aborted or 50 claims were made.
   * @throws errors of Postgres in a claim
   */
  async runOnce(signal?: AbortSignal): Promise<void> {
    const { pool, leaseMs = defaultLeaseMs } = this.#options
    for (let claims = 0; claims < claimsMax && !signal?.aborted; claims += 1) {
      const lease = randomToken()
      const steps = await claimSteps(pool, { lease, leaseMs, rowsMax })
      if (steps.length === 0) return
      await Promise.all(steps.map((step) => this.#run(step, lease)))
    }
  }

  async #run(step: ClaimedStep, lease: string): Promise<void> {
    let unexpected: unknown
    const outcome = await this.#send(step).catch((cause: unknown): StepOutcome => {
      unexpected = cause
      return { kind: 'broken' }
    })
    const verdict = decideStep(outcome, step)
    const report = {
      ...{ step, outcome: outcome.kind, verdict },
      ...(unexpected !== undefined && { cause: unexpected }),
    }
    try {
      const state = await completeStep(this.#options.pool, { id: step.id, lease }, verdict)
      this.#options.onStep({ ...report, state })
    } catch (cause) {
      this.#options.onStep({ ...report, state: undefined, cause })
    }
  }

  async #send(of: ClaimedStep): Promise<StepOutcome> {
    if (of.isTooLate) return { kind: 'too_late' }
    const { directory, intake } = this.#options
    const { id, chargeback, step, openedAtMs, dueAtMs } = of
    const tenant = directory.findTenantById(of.tenantId)
    // A tenant whose slug is not assigned yet accepts no calls.
    if (!tenant || tenant.slug === null) return { kind: 'no_caller', cause: 'tenant_unknown' }
    const caller = intake.callers.byTenant(tenant, chargeback.provider)
    if (caller.kind === 'refused') return { kind: 'no_caller', cause: caller.cause }
    const body = Buffer.from(eventBody({ id, chargeback, step, openedAtMs, occurredAtMs: dueAtMs }))
    const signed = await this.#sign(caller, body)
    if (signed === undefined) return { kind: 'no_caller', cause: 'signing_unavailable' }
    return acceptWebhook(intake, signed.caller, { headers: signed.headers, body, simulationId: id })
  }

  /**
   * Signs a call as its provider does: with the tenant's secret, or with a key that only the returned caller trusts. Returns undefined
   * without a secret or settings. The first wallet call generates a key, which takes about 100 ms.
   */
  async #sign(
    caller: Caller,
    body: Uint8Array,
  ): Promise<{ readonly caller: Caller; readonly headers: Headers } | undefined> {
    const { keying, settings } = caller
    const atMs = this.#options.clock.now()
    if (keying.kind === 'secrets') {
      const [secret] = keying.secrets()
      return secret === undefined
        ? undefined
        : { caller, headers: new Headers(signCard({ body, secret, atMs })) }
    }
    if (settings.wallet === undefined) return undefined
    this.#wallet ??= createWalletSigner().catch((error: unknown) => {
      this.#wallet = undefined
      throw error
    })
    const { signer, sign } = await this.#wallet
    const headers = new Headers(sign({ body, webhookId: settings.wallet.webhookId, atMs }))
    return { caller: { ...caller, keying: { kind: 'signer', provider: keying.provider, signer } }, headers }
  }
}
