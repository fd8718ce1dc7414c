import { type Clock, randomToken } from '#internal/base/index.ts'
import { type AcceptContext, acceptWebhook, type Callers } from '#internal/intake/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import { disputeOverrides, sourceEventId, stepTypes } from './chargeback.ts'
import { type CallSigner, sampleOf } from './simulated-call.ts'
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
  /** Accepts simulated calls as it accepts real ones. */
  readonly intake: AcceptContext & { readonly callers: Pick<Callers, 'byTenant'> }
  readonly directory: Pick<Directory, 'findTenantById'>
  readonly signer: CallSigner
  readonly clock: Clock
  /** Lease of a step; default 30 000. Must exceed the time that intake needs to accept a call. */
  readonly leaseMs?: number
  /** Called once per step, whether or not its event was accepted. Must not throw. */
  onStep(report: StepReport): void
}

/** Outcome of a step, which sends one event. */
export interface StepReport {
  readonly step: ClaimedStep
  readonly outcome: StepOutcome['kind']
  readonly verdict: StepVerdict
  /** Undefined if another process has taken over the step, or if writing its result failed. */
  readonly state: SimulationState | undefined
  /** Error of the step, or of writing its result; in the second case the step is repeated when its lease expires. */
  readonly cause?: unknown
}

const defaultLeaseMs = 30_000
/** Maximum simulated events that a process sends at once. They share intake's batches and connections with real calls. */
const rowsMax = 16
/** Maximum number of claims per `runOnce`. */
const claimsMax = 50

/** Sends due simulated events, in order, through the same path as real calls. Any number of processes share the work. */
export class Simulator {
  readonly #options: SimulatorOptions
  constructor(options: SimulatorOptions) {
    this.#options = options
  }

  /** Sends due events until no event is due, the signal is aborted or 50 claims were made. @throws errors of Postgres in a claim */
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
      step,
      outcome: outcome.kind,
      verdict,
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
    const sample = sampleOf(chargeback.provider, stepTypes(chargeback)[step] ?? '')
    const signed =
      sample &&
      (await this.#options.signer.write(caller, {
        id: sourceEventId(id, chargeback.provider, step),
        sample,
        overrides: disputeOverrides({ id, chargeback, step, openedAtMs, occurredAtMs: dueAtMs }),
        occurredAtMs: dueAtMs,
        signedAtMs: this.#options.clock.now(),
      }))
    if (signed === undefined) return { kind: 'no_caller', cause: 'signing_unavailable' }
    const { caller: signedBy, ...call } = signed
    return acceptWebhook(intake, signedBy, { ...call, simulationId: id })
  }
}
