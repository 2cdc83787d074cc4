import { describeHttpContract } from '../http/describe-contract.ts'

describeHttpContract('tiered postgres')
