//! What the HTTP API speaks: requests and answers.
