export type { SimulationChange, SimulationChangeResult } from './change.ts'
export { advanceSimulation, cancelSimulation } from './change.ts'
export { forgetSimulations } from './forget.ts'
export { type Simulations, simulationRoutes } from './http.ts'
export { listSimulations, readSimulation, type SimulationListRequest, type SimulationPage } from './read.ts'
export { type Readiness, readinessFor } from './readiness.ts'
export {
  type Chargeback,
  chargebackOf,
  chargebackOutcomes,
  chargebackReasons,
  SimulateChargebackRequest,
  simulatedProviders,
  stepSecondsMax,
} from './request.ts'
export {
  parseSimulationId,
  type SimulatedEvent,
  type Simulation,
  type SimulationCause,
  type SimulationId,
  type SimulationState,
  simulationStates,
} from './simulation.ts'
export { Simulator, type SimulatorOptions, type StepReport } from './simulator.ts'
export {
  openPerTenantMax,
  type StartSimulationRequest,
  type StartSimulationResult,
  startSimulation,
} from './start.ts'
