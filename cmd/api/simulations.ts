import { openLoop } from '#cmd/serving/loop.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { systemClock } from '#internal/base/index.ts'
import { countCall, type Intake } from '#internal/intake/index.ts'
import { CallSigner, type Simulations, Simulator, type StepReport } from '#internal/simulations/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { type Directory, type RetentionDays, retentionOf } from '#internal/tenants/index.ts'
import type { StatsTally } from '#internal/usage/index.ts'

/** Poll interval in ms. A simulated event that another process scheduled can be late by at most this long. */
const pollMs = 500
const turnMsMax = 10_000

/** Starts the loop that sends due simulated events until the scope closes. Returns the dependencies of the simulation routes. */
export async function startSimulations(
  host: Host,
  {
    pool,
    directory,
    intake,
    stats,
    retentionDefaults,
  }: {
    readonly pool: Pool
    readonly directory: Directory
    /** Accepts simulated calls in this process, without the network. */
    readonly intake: Intake
    readonly stats: StatsTally
    /** Retention for tenants that do not set their own. */
    readonly retentionDefaults: () => RetentionDays
  },
): Promise<Simulations> {
  const signer = new CallSigner()
  const simulator = new Simulator({
    pool,
    directory,
    intake,
    signer,
    clock: systemClock,
    onStep: stepObserver(host, stats),
  })
  const loop = await openLoop(host, {
    name: 'simulations',
    intervalMs: pollMs,
    turnMsMax,
    runOnce: (signal) => simulator.runOnce(signal),
    onError: (cause, failures) =>
      host.log.warn({ failures, cause }, 'due simulations could not be claimed; retrying'),
  })
  return {
    pool,
    intake,
    signer,
    callers: intake.callers,
    clock: systemClock,
    declarations: () => directory.declarations(),
    onAccepted: ({ kind, event }) => countCall(stats, event.tenantId, kind),
    eventDaysOf: (tenant) => retentionOf(tenant.retention, retentionDefaults()).eventDays,
    onStarted: () => loop.wake(),
  }
}

function stepObserver({ log, metrics }: Host, stats: StatsTally): (report: StepReport) => void {
  const steps = metrics.counter({
    name: 'latchkey_simulations_steps_total',
    help: 'Simulated webhook calls, by provider and outcome.',
    labels: ['provider', 'outcome'],
  })
  return (report) => {
    const { step, outcome, verdict, state, cause } = report
    steps.with(step.chargeback.provider, outcome).inc()
    // Counts only accepted events: a failed event is sent again, and these retries must not count as further calls.
    if (outcome === 'stored' || outcome === 'duplicate' || outcome === 'queued')
      countCall(stats, step.tenantId, outcome)
    const why = verdict.kind === 'sent' ? undefined : verdict.cause
    const fields = { simulation: step.id, tenant: step.tenantId, step: step.step + 1, outcome, state, why }
    if (cause === undefined) log.info(fields, 'simulated event sent')
    else log.error({ ...fields, cause }, 'simulated event failed; it is sent again after its lease ends')
  }
}
