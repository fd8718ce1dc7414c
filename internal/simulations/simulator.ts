import { type Clock, randomToken } from '#internal/base/index.ts'
import { type AcceptContext, acceptWebhook, type Callers } from '#internal/intake/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import { CallSigner } from './call-signer.ts'
import { eventBody } from './chargeback.ts'
import { type ClaimedStep, claimSteps, type StepVerdict, settleStep } from './claim.ts'
import { decideStep, type StepOutcome } from './decide-step.ts'
import type { SimulationState } from './simulation.ts'

/** What simulations are worked off with. Everything in it stays its owner's. */
export interface SimulatorOptions {
  readonly pool: Pool
  /** What real calls are accepted with. */
  readonly intake: AcceptContext & { readonly callers: Pick<Callers, 'byTenant'> }
  readonly directory: Pick<Directory, 'findTenantById'>
  readonly clock: Clock
  /** How long a claim holds: much longer than accepting a call can take. Default 30 s. */
  readonly leaseMs?: number
  /** Told of each step that was settled, and of each that could not be. Must not throw. */
  onStep(report: StepReport): void
}

/** What a step came to. */
export interface StepReport {
  readonly step: ClaimedStep
  readonly outcome: StepOutcome['kind']
  readonly verdict: StepVerdict
  /** Where its simulation stands; undefined where another process has taken it over, or it could not be written. */
  readonly state: SimulationState | undefined
  /** A mistake of ours; or why it could not be written, after which it is done once more when the claim has ended. */
  readonly cause?: unknown
}

const defaultLeaseMs = 30_000
/** Steps at a time: they share a commit of the intake, and a pool with everybody's calls. */
const rowsMax = 16
const tooLate: StepOutcome = { kind: 'too_late' }
/** The next turn goes on. */
const claimsMax = 50

/** Sends the events of simulations, each when it is due and in its order, through the path of real calls. Any number of processes share them. */
export class Simulator {
  readonly #options: SimulatorOptions
  readonly #signer: CallSigner

  constructor(options: SimulatorOptions) {
    this.#options = options
    this.#signer = new CallSigner(options.clock)
  }

  /** Works off what is due, until nothing is, the signal fires or a turn's share is done. @throws what a claim throws */
  async runOnce(signal?: AbortSignal): Promise<void> {
    const { pool, leaseMs = defaultLeaseMs } = this.#options
    for (let claims = 0; claims < claimsMax && !signal?.aborted; claims += 1) {
      const lease = randomToken()
      const steps = await claimSteps(pool, { lease, leaseMs, rowsMax })
      if (steps.length === 0) return
      await Promise.all(steps.map((step) => this.#work(step, lease)))
    }
  }

  async #work(step: ClaimedStep, lease: string): Promise<void> {
    let mistake: unknown
    const sending = step.isTooLate ? Promise.resolve(tooLate) : this.#send(step)
    const outcome = await sending.catch((cause: unknown): StepOutcome => {
      mistake = cause
      return { kind: 'broken' }
    })
    const verdict = decideStep(outcome, step)
    const report = { step, outcome: outcome.kind, verdict, ...(mistake !== undefined && { cause: mistake }) }
    try {
      const state = await settleStep(this.#options.pool, { id: step.id, lease }, verdict)
      this.#options.onStep({ ...report, state })
    } catch (cause) {
      this.#options.onStep({ ...report, state: undefined, cause })
    }
  }

  async #send(of: ClaimedStep): Promise<StepOutcome> {
    const { directory, intake } = this.#options
    const { id, chargeback, step, openedAtMs, dueAtMs } = of
    const tenant = directory.findTenantById(of.tenantId)
    // One that waits for its slug serves nothing.
    if (!tenant || tenant.slug === null) return { kind: 'no_caller', cause: 'tenant_unknown' }
    const caller = intake.callers.byTenant(tenant, chargeback.provider)
    if (caller.kind === 'refused') return { kind: 'no_caller', cause: caller.cause }
    const body = Buffer.from(eventBody({ id, chargeback, step, openedAtMs, occurredAtMs: dueAtMs }))
    const call = await this.#signer.sign(caller, body)
    if (call === undefined) return { kind: 'no_caller', cause: 'signing_unavailable' }
    return acceptWebhook(intake, call.caller, { headers: call.headers, body, simulationId: id })
  }
}
