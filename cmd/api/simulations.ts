import { openLoop } from '#cmd/serving/loop.ts'
import { systemClock } from '#internal/base/index.ts'
import type { Intake } from '#internal/intake/index.ts'
import type { Scope } from '#internal/process/index.ts'
import { type Simulations, Simulator, type StepReport } from '#internal/simulations/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { type Directory, type RetentionDays, retentionOf } from '#internal/tenants/index.ts'
import type { FigureTally } from '#internal/usage/index.ts'
import { countStep } from './call-figures.ts'
import type { Telemetry } from './telemetry.ts'

/** What simulations stand on. */
export interface SimulationParts {
  readonly pool: Pool
  readonly directory: Directory
  /** Their events come in by the path of real calls, which is in this process: no call to ourselves over the network. */
  readonly intake: Intake
  readonly figures: FigureTally
  /** The days of a tenant that leaves them open. */
  readonly retentionDefaults: () => RetentionDays
}

/** How late an event may be at most that another process wrote down, or that was due later. */
const pollMs = 500
const turnMsMax = 10_000

/** Starts to send the events of simulations, for the scope's life; gives what the route works with. */
export async function startSimulations(
  { pool, directory, intake, figures, retentionDefaults }: SimulationParts,
  telemetry: Telemetry,
  scope: Scope,
): Promise<Simulations> {
  const { log } = telemetry
  const simulator = new Simulator({
    ...{ pool, directory, intake },
    clock: systemClock,
    onStep: stepObserver(telemetry, figures),
  })
  const loop = await openLoop(
    {
      ...{ name: 'simulations', intervalMs: pollMs, turnMsMax },
      runOnce: (signal) => simulator.runOnce(signal),
      onError: (cause, failures) => log.warn({ failures, cause }, 'simulations cannot go on, trying again'),
    },
    telemetry,
    scope,
  )
  return {
    ...{ pool, callers: intake.callers, clock: systemClock },
    eventDaysOf: (tenant) => retentionOf(tenant.retention, retentionDefaults()).eventDays,
    onStarted: () => loop.wake(),
  }
}

function stepObserver({ log, metrics }: Telemetry, figures: FigureTally): (report: StepReport) => void {
  const steps = metrics.counter({
    name: 'latchkey_simulations_steps_total',
    help: 'Simulated calls of providers, by what became of them.',
    labels: ['provider', 'outcome'],
  })
  return (report) => {
    const { step, outcome, verdict, state, cause } = report
    steps.with(step.chargeback.provider, outcome).inc()
    countStep(figures, report)
    const why = verdict.kind === 'sent' ? undefined : verdict.cause
    const fields = { simulation: step.id, tenant: step.tenantId, step: step.step + 1, outcome, state, why }
    if (cause === undefined) log.info(fields, 'simulated event')
    else log.error({ ...fields, cause }, 'a simulated event did not get to its end, it is sent once more')
  }
}
