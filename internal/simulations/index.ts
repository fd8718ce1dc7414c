export { type Simulations, simulationRoutes } from './http.ts'
export { CallSigner } from './simulated-call.ts'
export {
  type Chargeback,
  chargebackOf,
  chargebackOutcomes,
  chargebackReasons,
  parseSimulationId,
  rehearseSimulation,
  SimulateChargebackRequest,
  type SimulatedEvent,
  type Simulation,
  type SimulationCause,
  type SimulationId,
  type SimulationState,
  simulatedProviders,
  simulationBytesMax,
  simulationStates,
  stepSecondsMax,
} from './simulation.ts'
export { Simulator, type SimulatorOptions, type StepReport } from './simulator.ts'
export {
  openPerTenantMax,
  type Readiness,
  readinessFor,
  type StartSimulationRequest,
  type StartSimulationResult,
  startSimulation,
} from './start.ts'
export {
  advanceSimulation,
  cancelSimulation,
  forgetSimulations,
  listSimulations,
  purgeSimulations,
  readSimulation,
  type SimulationChange,
  type SimulationChangeResult,
  type SimulationListRequest,
  type SimulationPage,
  type SimulationPlace,
} from './store.ts'
