//! What a client can have done to a group itself: look into it, change who belongs to it and who leads, size batches.

use greenwave::{Code, Context, Failure, Status};
use greenwave_replica::Place;
use greenwave_replica::core::Sizing;

use super::client::{GroupClient, StoreClientError};
use super::tuning;
use crate::proto::replicated as proto;
use proto::change_request::Change;

impl GroupClient {
    /// What the leader knows of itself and its group.
    ///
    /// # Errors
    /// When nobody leads, or no leader answers in time.
    pub fn inspect_leader(&mut self, context: &Context) -> Result<proto::InspectReply, StoreClientError> {
        let request = proto::InspectRequest { leader_only: true };
        self.ask_replica(context, false, |replica, context| {
            replica.admin.inspect(context, &request).map(|reply| reply.message)
        })
    }

    /// What the replica at this place knows of itself and its group.
    ///
    /// # Errors
    /// Why it doesn't answer.
    pub fn inspect(&mut self, context: &Context, place: &Place) -> Result<proto::InspectReply, Status> {
        let request = proto::InspectRequest { leader_only: false };
        self.ask_one(context, place, |replica, context| {
            replica.admin.inspect(context, &request).map(|reply| reply.message)
        })
    }

    /// Changes who belongs to the group, and waits until that is so. Whether it is can be seen from
    /// [`inspect_leader`](Self::inspect_leader), also after [`StoreClientError::Uncertain`].
    ///
    /// # Errors
    /// When it makes no sense, or isn't done in time.
    pub fn change(&mut self, context: &Context, change: Change) -> Result<(), StoreClientError> {
        let request = proto::ChangeRequest { change: Some(change) };
        self.ask_replica(context, true, |replica, context| replica.admin.change(context, &request).map(|_| ()))
    }

    /// Hands over the lead to the replica of this number.
    ///
    /// # Errors
    /// When it isn't a voter, or doesn't take it in time.
    pub fn transfer(&mut self, context: &Context, to: u64) -> Result<(), StoreClientError> {
        let request = proto::TransferRequest { to };
        self.ask_replica(context, true, |replica, context| replica.admin.transfer(context, &request).map(|_| ()))
    }

    /// Has the replica at this place size batches and windows in this way, whenever it leads.
    ///
    /// # Errors
    /// Why it isn't done.
    pub fn resize(&mut self, context: &Context, place: &Place, sizing: Sizing) -> Result<(), Status> {
        let request = proto::ResizeRequest { sizing: Some(tuning::sizing_to_proto(sizing)) };
        self.ask_one(context, place, |replica, context| replica.admin.resize(context, &request).map(|_| ()))
    }

    /// One replica and no other, once.
    fn ask_one<T>(
        &mut self,
        context: &Context,
        place: &Place,
        send: impl FnOnce(&super::client::Replica, &Context) -> Result<T, Failure>,
    ) -> Result<T, Status> {
        let place = self.known(place).map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))?;
        Ok(self.replica(place, |replica| send(replica, context))?)
    }
}
